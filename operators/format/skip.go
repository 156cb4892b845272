package format

// plain says which bytes of a JSON string stand for themselves.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return t
}()

// text reads a string from behind its opening quote to behind the closing one.
func (s *Scanner) text(b []byte, i int) (end int, escaped bool) {
	for {
		if i > len(b) {
			return s.fail(i, "the string is cut off"), escaped
		}
		rest, n := b[i:], 0
		for n < len(rest) && plain[rest[n]] {
			n++
		}
		if i += n; i >= len(b) {
			return s.fail(i, "the string is cut off"), escaped
		}
		if b[i] == '"' {
			return i + 1, escaped
		}
		if b[i] != '\\' {
			return s.fail(i, "a control character in a string"), escaped
		}
		escaped = true
		if i+1 >= len(b) {
			return s.fail(i+1, "the string is cut off"), escaped
		}
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			for k := i + 2; k < i+6; k++ {
				if k >= len(b) || hex(b[k]) < 0 {
					return s.fail(k, "expected four hexadecimal digits"), escaped
				}
			}
			i += 6
		default:
			return s.fail(i+1, "unknown escape sequence"), escaped
		}
	}
}

func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// skip reads any value at i and returns the place behind it.
func (s *Scanner) skip(b []byte, i, depth int) int {
	if i >= len(b) {
		return s.fail(i, "a value is missing")
	}
	switch c := b[i]; {
	case c == '"':
		end, _ := s.text(b, i+1)
		return end
	case c == '-' || c >= '0' && c <= '9':
		return s.number(b, i)
	case c == '{':
		return s.object(b, i+1, nil, depth+1)
	case c == '[':
		return s.array(b, i+1, depth+1)
	case c == 't':
		return s.word(b, i, "true")
	case c == 'f':
		return s.word(b, i, "false")
	case c == 'n':
		return s.word(b, i, "null")
	}
	return s.fail(i, "expected a value")
}

func (s *Scanner) word(b []byte, i int, w string) int {
	if len(b)-i < len(w) || string(b[i:i+len(w)]) != w {
		return s.fail(i, "expected "+w)
	}
	return i + len(w)
}

func (s *Scanner) number(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && b[i] >= '1' && b[i] <= '9':
		i = digits(b, i)
	default:
		return s.fail(i, "expected a digit")
	}
	if i < len(b) && b[i] == '.' {
		j := digits(b, i+1)
		if j == i+1 {
			return s.fail(j, "expected a digit after the point")
		}
		i = j
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		j := digits(b, i)
		if j == i {
			return s.fail(j, "expected a digit in the exponent")
		}
		i = j
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}

func (s *Scanner) array(b []byte, i, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "nested too deeply")
	}
	i = space(b, i)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.skip(b, i, depth); i < 0 {
			return -1
		}
		i = space(b, i)
		if i >= len(b) {
			return s.fail(i, "the array is cut off")
		}
		if b[i] == ']' {
			return i + 1
		}
		if b[i] != ',' {
			return s.fail(i, "expected a comma or a closing bracket")
		}
		i = space(b, i+1)
	}
}
