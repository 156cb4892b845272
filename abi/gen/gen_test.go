package main

import (
	"strings"
	"testing"
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	stale, err := run("../..", false)
	if err != nil {
		t.Fatal(err)
	}
	if len(stale) > 0 {
		t.Errorf("out of date, run `go run ./abi/gen`: %s", strings.Join(stale, ", "))
	}
}

func TestScreaming(t *testing.T) {
	for in, want := range map[string]string{
		"FrameKeyLen": "FRAME_KEY_LEN", "StatusOK": "STATUS_OK", "BlockN": "BLOCK_N",
		"BlockNStates": "BLOCK_N_STATES", "MaxLogLinesPerSec": "MAX_LOG_LINES_PER_SEC",
	} {
		if got := screaming(in); got != want {
			t.Errorf("%s: %s, expected %s", in, got, want)
		}
	}
}

func TestBadSourcesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"unknown field":   "version: 0\nfoo: 1\n",
		"parameter type":  "calls: [{name: a, const: CallA, params: [x f64], result: i32}]\n",
		"result type":     "calls: [{name: a, const: CallA, params: [], result: f32}]\n",
		"name used twice": "constants: [{doc: d, type: u8, values: [[A, 1, x], [A, 2, y]]}]\n",
		"constant type":   "constants: [{doc: d, type: u7, values: []}]\n",
		"constant shape":  "constants: [{doc: d, type: u8, values: [[A, 1]]}]\n",
	} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
