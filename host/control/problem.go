package control

import (
	"encoding/json"
	"errors"
	"net/http"
)

// Kind classifies an error for the other side.
type Kind string

// Kinds of errors.
const (
	KindFailed       Kind = "failed"        // it was tried and did not succeed
	KindBadRequest   Kind = "bad_request"   // the request makes no sense
	KindNotFound     Kind = "not_found"     // there is nothing of that name
	KindNotPermitted Kind = "not_permitted" // another user's pipeline
	KindBusy         Kind = "busy"          // something else is under way; later it may do
	KindEnded        Kind = "ended"         // the pipeline has ended or is ending
	KindRefused      Kind = "refused"       // pipeline, module or state do not fit: nothing was changed
	KindDamaged      Kind = "damaged"       // a snapshot is damaged
	KindGuest        Kind = "guest"         // a guest's fault
	KindUnsupported  Kind = "unsupported"   // this pipeline, or this version, can't do that
)

var statuses = map[Kind]int{
	KindFailed: http.StatusInternalServerError, KindBadRequest: http.StatusBadRequest, KindNotFound: http.StatusNotFound,
	KindNotPermitted: http.StatusForbidden, KindBusy: http.StatusConflict, KindEnded: http.StatusGone,
	KindRefused: http.StatusUnprocessableEntity, KindDamaged: http.StatusUnprocessableEntity,
	KindGuest: http.StatusInternalServerError, KindUnsupported: http.StatusNotImplemented,
}

// Error is an error that crosses the socket. Data is what a program needs beyond the text, if anything.
type Error struct {
	Kind    Kind
	Message string
	Data    json.RawMessage
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// problem is an Error on the wire, as RFC 9457 has it.
type problem struct {
	Type   string          `json:"type"`
	Title  string          `json:"title"`
	Status int             `json:"status"`
	Detail string          `json:"detail"`
	Kind   Kind            `json:"kind"`
	Data   json.RawMessage `json:"data,omitempty"`
}

const problemType = "application/problem+json"

func writeProblem(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Kind: KindFailed, Message: err.Error()}
	}
	status := statuses[e.Kind]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem{"about:blank", http.StatusText(status), status, err.Error(), e.Kind, e.Data})
}
