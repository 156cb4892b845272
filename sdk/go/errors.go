package millrace

import (
	"errors"
	"strconv"
)

var statusText = map[int32]string{
	statusAbsent:     "no such entry",
	statusTooSmall:   "the buffer is too small",
	statusBadArg:     "unknown state, output, iterator or domain",
	statusBadPointer: "a byte range outside the memory",
	statusLimit:      "over a limit",
	statusNoKey:      "there is no current key: the function is not keyed",
	statusForbidden:  "not allowed in this callback",
}

// failed makes an error of what a host call returned; nil if it went well or found nothing.
func failed(call string, status int32) error {
	if status >= 0 || status == statusAbsent {
		return nil
	}
	why, ok := statusText[status]
	if !ok {
		why = "unknown status"
	}
	return errors.New(call + ": " + why + " (" + strconv.Itoa(int(status)) + ")")
}

var (
	errNoKey      = errors.New("state without a current key: the function is not keyed")
	errOtherState = errors.New("state of another function of the module")
	errNullText   = errors.New("the value is null, text was expected")
	errNullRow    = errors.New("the value is null, a row was expected")
	errNotUTF8    = errors.New("the value is not UTF-8")
)
