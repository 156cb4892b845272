package task

import "fmt"

// SourceError is what a source could not read.
type SourceError struct {
	Source string
	Err    error
}

func (e *SourceError) Error() string { return fmt.Sprintf("source %s: %v", e.Source, e.Err) }

// Unwrap gives the cause.
func (e *SourceError) Unwrap() error { return e.Err }
