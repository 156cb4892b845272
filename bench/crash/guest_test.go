package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"text/template"

	"github.com/millrace-io/millrace/bench/crash/drive"
)

func TestTheCommittedGuestIsTheOneItsBuildRecorded(t *testing.T) {
	module, err := os.ReadFile("guest/crash.wasm")
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile("guest/crash.wasm.sha256")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(module)
	if got := hex.EncodeToString(sum[:]); !strings.HasPrefix(string(recorded), got) {
		t.Errorf("crash.wasm has digest %s, crash.wasm.sha256 says %s", got, recorded)
	}
}

func TestTheTemplateUsesWhatATrialFills(t *testing.T) {
	tpl, err := template.New("pipeline").Option("missingkey=error").Parse(pipelineTemplate)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variants {
		var text strings.Builder
		if err := tpl.Execute(&text, drive.Pipeline{Variant: v, Input: "IN", Output: "OUT", Rejected: "BAD", Dead: "DEAD", Modules: "MOD"}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"IN", "OUT", "BAD", "DEAD", "MOD", "state: " + v.State, "memory: \"" + v.Memory} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: %s is not in the pipeline", v.Name, want)
			}
		}
	}
	var text strings.Builder
	tpl = template.Must(template.New("ledger").Option("missingkey=error").Parse(ledgerTemplate))
	if err := tpl.Execute(&text, drive.Pipeline{Variant: drive.Variant{Guest: "GUEST"}}); err != nil || !strings.Contains(text.String(), "GUEST") {
		t.Errorf("error %v, pipeline %s", err, text.String())
	}
}
