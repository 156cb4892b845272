package abi

// ValueType is a WebAssembly type that the ABI uses.
type ValueType string

// The ABI uses integers only.
const (
	I32 ValueType = "i32"
	I64 ValueType = "i64"
)

// Param is a named parameter.
type Param struct {
	Name string
	Type ValueType
}

// Signature is the type of an import or export, from abi.yaml.
type Signature struct {
	Name     string
	Params   []Param
	Result   ValueType // "": none
	Required bool      // exports: a module without it is refused
	Recorded bool      // calls: a recording of a run holds the answer
}

// String is "(i32, i64) -> i32".
func (s Signature) String() string {
	t := "("
	for i, p := range s.Params {
		if i > 0 {
			t += ", "
		}
		t += string(p.Type)
	}
	t += ") -> ("
	return t + string(s.Result) + ")"
}
