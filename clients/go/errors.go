package tickwheel

import (
	"errors"
	"fmt"
	"strings"
)

// Kinds of errors, for errors.Is.
var (
	// ErrUnreachable: no answer came, and a repetition would have no second effect.
	ErrUnreachable = errors.New("unreachable")
	// ErrUnknownOutcome: the answer to a conditional change was lost, and its condition no longer
	// holds: this change took effect, or another one. Read the timer.
	ErrUnknownOutcome = errors.New("unknown-outcome")
	// ErrBadAnswer: the answer is not one of tickwheeld, but of a proxy or another server.
	ErrBadAnswer = errors.New("bad-answer")

	ErrInvalid         = errors.New("invalid")          // 422: a field is wrong
	ErrNotFound        = errors.New("not-found")        // 404
	ErrGone            = errors.New("gone")             // 410: fired, cancelled or dead
	ErrAlreadyFiring   = errors.New("already-firing")   // 409: it is being delivered
	ErrKeyInUse        = errors.New("key-in-use")       // 409: another timer has the key
	ErrVersionMismatch = errors.New("version-mismatch") // 412
	ErrTooMany         = errors.New("too-many")         // 429: a limit on timers or their rate
	ErrUnauthorized    = errors.New("unauthorized")     // 401, 403
	ErrUnavailable     = errors.New("unavailable")      // 5xx, after all retries
)

// FieldError is a wrong field of a body, by its JSON pointer, or a wrong parameter of a query.
type FieldError struct {
	Pointer   string `json:"pointer,omitempty"`
	Parameter string `json:"parameter,omitempty"`
	Detail    string `json:"detail"`
}

// Problem is an error of the server.
type Problem struct {
	Type   string       `json:"type"` // the last part of the URI, such as "key-in-use"
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"`
	Errors []FieldError `json:"errors,omitempty"`
	Timer  *Timer       `json:"timer,omitempty"` // the timer that it is about, where the server sends it
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	return fmt.Sprintf("tickwheel: %d %s: %s", p.Status, p.Type, text)
}

// Is tells the kinds of problems for errors.Is.
func (p *Problem) Is(kind error) bool {
	switch kind {
	case ErrTooMany:
		return p.Status == 429
	case ErrUnauthorized:
		return p.Status == 401 || p.Type == "forbidden"
	case ErrUnavailable:
		return p.Status >= 500
	case ErrInvalid, ErrNotFound, ErrGone, ErrAlreadyFiring, ErrKeyInUse, ErrVersionMismatch:
		return p.Type == kind.Error()
	}
	return false
}

// passes tells whether the problem may be over after a pause.
func (p *Problem) passes() bool {
	return isTriedAgain(p.Status) && p.Type != "too-many" && p.Type != "unreadable" && p.Type != "corrupt"
}

func isTriedAgain(status int) bool {
	return status == 429 || status == 500 || status == 502 || status == 503 || status == 504
}

func (p *Problem) shortenType() {
	p.Type = p.Type[strings.LastIndex(p.Type, "/")+1:]
}
