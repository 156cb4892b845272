package engine

import (
	"strconv"
	"strings"
)

// traceHead comes between what happened and the frames.
const traceHead = "\nwasm stack trace:"

// splitTrap takes the engine's error text apart: what happened, and the frames, innermost first.
func splitTrap(err error) (message string, frames []string) {
	text, trace, found := strings.Cut(err.Error(), traceHead)
	text = strings.TrimPrefix(text, "wasm error: ")
	text = strings.TrimSuffix(text, " (recovered by wazero)")
	if !found {
		return text, nil
	}
	trace, _, _ = strings.Cut(trace, "\n\nGo runtime stack trace:")
	for _, line := range strings.Split(trace, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			frames = append(frames, line)
		}
	}
	return text, frames
}

// nameFrames puts names in the place of ".$12(i32) i32": the rewritten module carries none, so that
// nothing depends on them.
func (c *code) nameFrames(frames []string) []string {
	for i, f := range frames {
		name, rest, _ := strings.Cut(f, "(")
		number, ok := strings.CutPrefix(name, ".$")
		if !ok {
			continue
		}
		index, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			continue
		}
		frames[i] = demangle(c.rewritten.FuncName(uint32(index))) + "(" + rest
	}
	return frames
}

// demangle makes a legacy Rust symbol readable: _ZN4core9panicking5panic17h0123456789abcdefE is
// core::panicking::panic. Everything else stays as it is.
func demangle(symbol string) string {
	rest, ok := strings.CutPrefix(symbol, "_ZN")
	if !ok {
		return symbol
	}
	var parts []string
	for !strings.HasPrefix(rest, "E") {
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n > len(rest)-digits {
			return symbol
		}
		part := rest[digits : digits+n]
		rest = rest[digits+n:]
		if strings.HasPrefix(rest, "E") && isHash(part) {
			break
		}
		parts = append(parts, unescape(part))
	}
	if len(parts) == 0 {
		return symbol
	}
	return strings.Join(parts, "::")
}

func isHash(s string) bool {
	if len(s) != 17 || s[0] != 'h' {
		return false
	}
	_, err := strconv.ParseUint(s[1:], 16, 64)
	return err == nil
}

var rustEscapes = strings.NewReplacer("$LT$", "<", "$GT$", ">", "$RF$", "&", "$BP$", "*", "$C$", ",", "$u20$", " ",
	"$u27$", "'", "$u5b$", "[", "$u5d$", "]", "$u7b$", "{", "$u7d$", "}", "$LP$", "(", "$RP$", ")", "..", "::")

func unescape(part string) string {
	if strings.HasPrefix(part, "_$") {
		part = part[1:] // only there because a name can't begin with a dollar
	}
	return rustEscapes.Replace(part)
}
