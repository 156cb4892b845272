package millrace

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// JSONWriter writes the members of one JSON object, in call order, straight into the output. Names and
// text are escaped; numbers are written as the Rust SDK writes them, so that outputs agree byte for byte.
type JSONWriter struct {
	e     *Emit
	first bool
	buf   [64]byte
}

func (w *JSONWriter) name(name string) {
	if !w.first {
		w.e.pushString(",")
	}
	w.first = false
	w.string(name)
	w.e.pushString(":")
}

// Str writes text, escaped; bytes that are not UTF-8 become U+FFFD, one each.
func (w *JSONWriter) Str(name, v string) *JSONWriter {
	w.name(name)
	w.string(v)
	return w
}

// Bytes writes bytes as text, as Str does, without a copy.
func (w *JSONWriter) Bytes(name string, v []byte) *JSONWriter {
	w.name(name)
	w.bytes(v)
	return w
}

// Int writes a signed integer.
func (w *JSONWriter) Int(name string, v int64) *JSONWriter {
	w.name(name)
	w.e.push(strconv.AppendInt(w.buf[:0], v, 10))
	return w
}

// Uint writes an unsigned integer.
func (w *JSONWriter) Uint(name string, v uint64) *JSONWriter {
	w.name(name)
	w.e.push(strconv.AppendUint(w.buf[:0], v, 10))
	return w
}

// Fixed writes scaled divided by 10^decimals, exactly, with all its decimals: (1250, 3) is 1.250. At most
// 18 decimals.
func (w *JSONWriter) Fixed(name string, scaled int64, decimals int) *JSONWriter {
	w.name(name)
	b := w.buf[:0]
	u := uint64(scaled)
	if scaled < 0 {
		b, u = append(b, '-'), -u
	}
	unit := uint64(1)
	for range decimals {
		unit *= 10
	}
	b = strconv.AppendUint(b, u/unit, 10)
	if decimals > 0 {
		b = append(b, '.')
		for rest := u % unit; unit > 1; rest %= unit {
			unit /= 10
			b = append(b, '0'+byte(rest/unit))
		}
	}
	w.e.push(b)
	return w
}

// Float writes the shortest digits that read back as v, with an exponent below 1e-6 and from 1e21 on;
// null if it is not finite.
func (w *JSONWriter) Float(name string, v float64) *JSONWriter {
	w.name(name)
	size := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		w.e.pushString("null")
	case size != 0 && size < 1e-6 || size >= 1e21:
		b := strconv.AppendFloat(w.buf[:0], v, 'e', -1, 64)
		if n := len(b); b[n-4] == 'e' && b[n-2] == '0' { // e-09
			b = append(b[:n-2], b[n-1])
		}
		w.e.push(b)
	default:
		w.e.push(strconv.AppendFloat(w.buf[:0], v, 'f', -1, 64))
	}
	return w
}

// Bool writes true or false.
func (w *JSONWriter) Bool(name string, v bool) *JSONWriter {
	w.name(name)
	w.e.push(strconv.AppendBool(w.buf[:0], v))
	return w
}

// Null writes null.
func (w *JSONWriter) Null(name string) *JSONWriter { return w.Raw(name, "null") }

// Raw writes JSON text as it is: an array, or an object made elsewhere.
func (w *JSONWriter) Raw(name, json string) *JSONWriter {
	w.name(name)
	w.e.pushString(json)
	return w
}

// Send ends the object and writes the output. Errors: over the host's limits.
func (w *JSONWriter) Send() error {
	w.e.pushString("}")
	return w.e.close(flagValue)
}

func (w *JSONWriter) string(s string) {
	w.e.pushString(`"`)
	from := 0
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
		}
		if e := escape(&w.buf, r, n); e != nil {
			w.e.pushString(s[from:i])
			w.e.push(e)
			from = i + n
		}
		i += n
	}
	w.e.pushString(s[from:])
	w.e.pushString(`"`)
}

func (w *JSONWriter) bytes(s []byte) {
	w.e.pushString(`"`)
	from := 0
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(s[i:])
		}
		if e := escape(&w.buf, r, n); e != nil {
			w.e.push(s[from:i])
			w.e.push(e)
			from = i + n
		}
		i += n
	}
	w.e.push(s[from:])
	w.e.pushString(`"`)
}

// escape returns what stands for a rune of n bytes in a string; nil: itself.
func escape(buf *[64]byte, r rune, n int) []byte {
	const hex = "0123456789abcdef"
	b := buf[:0]
	switch {
	case r == utf8.RuneError && n == 1:
		return utf8.AppendRune(b, utf8.RuneError)
	case r == '"' || r == '\\':
		return append(b, '\\', byte(r))
	case r >= ' ':
		return nil
	case r == '\n':
		return append(b, '\\', 'n')
	case r == '\r':
		return append(b, '\\', 'r')
	case r == '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
}

// appendString is for descriptors.
func appendString(dst []byte, s string) []byte {
	var buf [64]byte
	dst = append(dst, '"')
	for _, r := range s {
		if e := escape(&buf, r, 0); e != nil {
			dst = append(dst, e...)
		} else {
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
