package tickwheel

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Duration is a length of time with its unit: "90s", or what After makes. A bare number is refused.
type Duration string

// After is a duration, rounded up to the millisecond as the service rounds.
func After(d time.Duration) Duration {
	return Duration(strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10) + "ms")
}

// UnmarshalJSON refuses a number: it has no unit.
func (d *Duration) UnmarshalJSON(text []byte) error {
	if err := checkDuration(text); err != nil {
		return err
	}
	return json.Unmarshal(text, (*string)(d))
}

// checkDuration refuses JSON that is neither a text nor null; what is absent passes.
func checkDuration(text json.RawMessage) error {
	if len(text) == 0 || text[0] == '"' || string(text) == "null" {
		return nil
	}
	return fmt.Errorf("tickwheel: %s is no duration: write a unit, as in \"30s\"", text)
}

// checkDurations refuses the fields of a timer if one that is a duration has no unit.
func checkDurations(text []byte) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return nil // the service says what is wrong
	}
	for place, names := range map[string][]string{"": {"after", "every", "ack_timeout"}, "late": {"drop_after"},
		"spread": {"window"}, "debounce": {"for", "at_most"},
		"retry": {"base", "cap", "timeout", "give_up_after"}} {
		members := fields
		if place != "" {
			members = nil
			_ = json.Unmarshal(fields[place], &members)
		}
		for _, name := range names {
			if err := checkDuration(members[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Instant is a time of the service, in milliseconds.
type Instant struct{ time.Time }

// At is an instant to schedule for.
func At(t time.Time) *Instant { return &Instant{t} }

// MarshalJSON writes RFC 3339 in UTC.
func (i Instant) MarshalJSON() ([]byte, error) { return json.Marshal(i.String()) }

func (i Instant) String() string { return i.UTC().Format("2006-01-02T15:04:05.000Z") }

// Retry says how often and when a delivery that failed is tried again.
type Retry struct {
	MaxAttempts int      `json:"max_attempts,omitempty"`
	Base        Duration `json:"base,omitempty"`
	Cap         Duration `json:"cap,omitempty"`
	Timeout     Duration `json:"timeout,omitempty"`
	GiveUpAfter Duration `json:"give_up_after,omitempty"`
	Until       string   `json:"until,omitempty"` // "next": of a timer that repeats, until its next firing
}

// Late says what becomes of a firing that is too late.
type Late struct {
	DropAfter Duration `json:"drop_after,omitempty"`
	Missed    string   `json:"missed,omitempty"`
}

// Spread moves every firing by a fixed part of the window.
type Spread struct {
	Window Duration `json:"window"`
}

// Debounce stands in place of a time: the timer is due For after the last Create or Put with its key, but no later than
// AtMost after the first, which First shows.
type Debounce struct {
	For    Duration `json:"for"`
	AtMost Duration `json:"at_most"`
	First  *Instant `json:"first,omitempty"` // in answers only
}

// Span is a part of the past: from From on and before To. Rate is how many firings begin at most, such as "10/s".
type Span struct {
	From Instant `json:"from"`
	To   Instant `json:"to"`
	Rate string  `json:"rate,omitempty"`
}

// SpanCount has the number of instants of a span, and the first and last of them.
type SpanCount struct {
	Count int      `json:"count"`
	First *Instant `json:"first,omitempty"`
	Last  *Instant `json:"last,omitempty"`
}

// Backfill says how far a backfill has come.
type Backfill struct {
	Of    string   `json:"of"`
	From  *Instant `json:"from,omitempty"`
	To    *Instant `json:"to,omitempty"`
	Rate  string   `json:"rate,omitempty"`
	Count int      `json:"count,omitempty"`
	Done  int      `json:"done,omitempty"`
}

// Report is where the end of a firing is reported.
type Report struct {
	Target string `json:"target"`
}

// Create has the fields of a new timer: a Target or Targets, and one of After, At, Every, Cron and Debounce.
type Create struct {
	Target      string            `json:"target,omitempty"`
	Targets     []string          `json:"targets,omitempty"` // in place of Target: each gets its own delivery
	After       Duration          `json:"after,omitempty"`
	At          *Instant          `json:"at,omitempty"`
	Every       Duration          `json:"every,omitempty"`
	Count       int               `json:"count,omitempty"`
	Cron        string            `json:"cron,omitempty"`
	Timezone    string            `json:"timezone,omitempty"`
	DST         string            `json:"dst,omitempty"`
	Until       *Instant          `json:"until,omitempty"`
	Late        *Late             `json:"late,omitempty"`
	Spread      *Spread           `json:"spread,omitempty"`
	Overlap     string            `json:"overlap,omitempty"` // a firing due while the one before goes on: wait, skip or allow
	Except      []string          `json:"except,omitempty"`  // dates, ranges of dates, weekdays, calendar:NAME
	Only        []string          `json:"only,omitempty"`
	OnHoliday   string            `json:"on_holiday,omitempty"` // skip, next_workday or previous_workday
	Debounce    *Debounce         `json:"debounce,omitempty"`
	Method      string            `json:"method,omitempty"`      // of a webhook: PUT, PATCH, GET or DELETE; empty: POST
	AckTimeout  Duration          `json:"ack_timeout,omitempty"` // for a receiver that answers later
	Payload     any               `json:"payload,omitempty"`     // any JSON; json.RawMessage is sent as it is
	Body        []byte            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Retry       *Retry            `json:"retry,omitempty"`
	Key         string            `json:"key,omitempty"`
	Watch       []string          `json:"watch,omitempty"`
	Flow        *Flow             `json:"flow,omitempty"`
	Order       string            `json:"order,omitempty"` // strict: that of creation where due times are equal
	OnDead      *Report           `json:"on_dead,omitempty"`
	OnSuccess   *Report           `json:"on_success,omitempty"`

	// IdempotencyKey names the request for later repetitions. The client makes one if it is empty.
	IdempotencyKey string `json:"-"`
}

// Flow limits the timers that share its key: how many run at a time, or start in a period.
type Flow struct {
	Key         string   `json:"key"`
	Concurrency int      `json:"concurrency,omitempty"`
	Rate        any      `json:"rate,omitempty"`   // "10/s", or with m, h, d; or a number in Period
	Period      Duration `json:"period,omitempty"` // 1s if Rate is a number
}

// Schedule is how a timer repeats, and what becomes of late firings.
type Schedule struct {
	Every     Duration  `json:"every,omitempty"`
	Count     int       `json:"count,omitempty"`
	Cron      string    `json:"cron,omitempty"`
	Timezone  string    `json:"timezone,omitempty"`
	DST       string    `json:"dst,omitempty"`
	Until     *Instant  `json:"until,omitempty"`
	Late      *Late     `json:"late,omitempty"`
	Spread    Duration  `json:"spread,omitempty"` // how far each firing is moved
	Overlap   string    `json:"overlap,omitempty"`
	Except    []string  `json:"except,omitempty"`
	Only      []string  `json:"only,omitempty"`
	OnHoliday string    `json:"on_holiday,omitempty"`
	Backfill  *Backfill `json:"backfill,omitempty"`
}

// TargetOutcome is one of several targets of a timer, and how it stands in the last firing.
type TargetOutcome struct {
	Target    string   `json:"target"`
	State     string   `json:"state"`         // scheduled, delivering, fired, dead, cancelled
	Due       *Instant `json:"due,omitempty"` // of the firing
	ID        string   `json:"id,omitempty"`  // of the timer that delivers to it, its part
	Attempts  int      `json:"attempts,omitempty"`
	LastError string   `json:"last_error,omitempty"`
}

// Timer is a timer as the service shows it.
type Timer struct {
	ID          string            `json:"id"`
	Due         Instant           `json:"due"`
	State       string            `json:"state"` // scheduled, delivering, retrying, paused, fired, cancelled, dead
	Version     int64             `json:"version"`
	Key         string            `json:"key,omitempty"`
	Target      string            `json:"target,omitempty"` // empty if it has Targets
	Targets     []TargetOutcome   `json:"targets,omitempty"`
	PartOf      string            `json:"part_of,omitempty"` // of the timer whose part it is
	Method      string            `json:"method,omitempty"`  // empty: POST
	AckTimeout  Duration          `json:"ack_timeout,omitempty"`
	Payload     json.RawMessage   `json:"payload,omitempty"`
	Body        []byte            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Watch       []string          `json:"watch,omitempty"`
	Schedule    *Schedule         `json:"schedule,omitempty"`
	Debounce    *Debounce         `json:"debounce,omitempty"`
	FiringOf    string            `json:"firing_of,omitempty"` // of a firing that is a timer of its own
	Retry       *Retry            `json:"retry,omitempty"`
	Flow        *Flow             `json:"flow,omitempty"`
	Order       string            `json:"order,omitempty"`
	OnDead      *Report           `json:"on_dead,omitempty"`
	OnSuccess   *Report           `json:"on_success,omitempty"`
	Attempts    int               `json:"attempts"`
	LastError   string            `json:"last_error,omitempty"`
	NextAttempt *Instant          `json:"next_attempt,omitempty"`
	Created     Instant           `json:"created"`
	Paused      *Paused           `json:"paused,omitempty"`
	Ended       *Instant          `json:"ended,omitempty"`
	ReportOf    string            `json:"report_of,omitempty"` // of a report: the timer that it is about
	Runs        []Run             `json:"runs,omitempty"`      // the last firings, the newest first
}

// Paused says since when, why and how long something is paused.
type Paused struct {
	Since Instant `json:"since"`
	Pause
}

// Run is a past firing of a timer that repeats.
type Run struct {
	Planned    Instant  `json:"planned"`
	Until      *Instant `json:"until,omitempty"` // skipped: that of the last of Count firings
	Count      int      `json:"count,omitempty"`
	Started    *Instant `json:"started,omitempty"`
	DurationMs int64    `json:"duration_ms,omitempty"`
	Attempts   int      `json:"attempts"`
	Outcome    string   `json:"outcome"`
	Status     int      `json:"status,omitempty"`
	Error      string   `json:"error,omitempty"`
	Timer      string   `json:"timer,omitempty"` // begun: the timer that is the firing
}

// Delivery tells what became of an attempt.
type Delivery struct {
	ID      string           `json:"id"`
	At      Instant          `json:"at"` // when it ended
	Timer   string           `json:"timer"`
	Key     string           `json:"key,omitempty"`
	Target  string           `json:"target"`
	Attempt int              `json:"attempt"`
	Outcome string           `json:"outcome"` // done, failed or ended
	Status  int              `json:"status,omitempty"`
	Ms      map[string]int64 `json:"ms"` // what the time went to
	Error   string           `json:"error,omitempty"`
	Answer  string           `json:"answer,omitempty"` // its beginning
}

// ScheduleState is a timer that repeats, with its last firings.
type ScheduleState struct {
	ID       string            `json:"id"`
	Due      Instant           `json:"due"`
	State    string            `json:"state"`
	Key      string            `json:"key,omitempty"`
	Target   string            `json:"target"`
	Labels   map[string]string `json:"labels,omitempty"`
	Schedule Schedule          `json:"schedule"`
	Attempts int               `json:"attempts"`
	Paused   *Paused           `json:"paused,omitempty"`
	Next     *Instant          `json:"next,omitempty"`
	HeldBy   string            `json:"held_by,omitempty"` // what holds it back
	Last     string            `json:"last"`              // never, ok, failed or skipped
	Failures int               `json:"failures"`          // since the last success
	Skipped  int               `json:"skipped"`           // since the last attempt
	Runs     []Run             `json:"runs"`
}

// Item is an item of a queue, leased to this worker until LeasedUntil.
type Item struct {
	Receipt     string            `json:"receipt"`
	ID          string            `json:"id"`
	Due         Instant           `json:"due"`
	Attempt     int               `json:"attempt"`
	Payload     json.RawMessage   `json:"payload,omitempty"`
	Body        []byte            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	LastError   string            `json:"last_error,omitempty"`
	LeasedUntil Instant           `json:"-"`
}

// BatchResult is one timer of a batch: created or found by its key, or failed alone.
type BatchResult struct {
	ID      string
	Existed bool
	Err     *Problem
}

// UnmarshalJSON reads a line of the answer.
func (r *BatchResult) UnmarshalJSON(text []byte) error {
	var line struct {
		ID      string `json:"id"`
		Existed bool   `json:"existed"`
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	*r = BatchResult{ID: line.ID, Existed: line.Existed}
	if line.ID != "" {
		return nil
	}
	r.Err = new(Problem)
	if err := json.Unmarshal(text, r.Err); err != nil || r.Err.Type == "" {
		return errors.New("a line without id and without problem")
	}
	r.Err.shortenType()
	return nil
}

// Failure is a timer of a call for many that the call could not be applied to.
type Failure struct {
	ID     string `json:"id,omitempty"`
	Key    string `json:"key,omitempty"`
	Type   string `json:"type"`
	Status int    `json:"status"`
}

// ManyResult counts what a call for many timers did.
type ManyResult struct {
	Cancelled     int       `json:"cancelled"`
	Rescheduled   int       `json:"rescheduled"`
	Touched       int       `json:"touched"`
	Fired         int       `json:"fired"`
	Paused        int       `json:"paused"`
	Resumed       int       `json:"resumed"`
	AlreadyFiring int       `json:"already_firing"`
	Failures      []Failure `json:"failures"`
}

// Completion counts the timers that an event ended.
type Completion struct {
	Cancelled     int    `json:"cancelled"`
	Fired         int    `json:"fired"`
	AlreadyFiring int    `json:"already_firing"`
	Type          string `json:"type,omitempty"` // of the problem, where this event failed
	Status        int    `json:"status,omitempty"`
}

// Completions are those of several events.
type Completions struct {
	Completion
	Failed  int          `json:"failed"`
	Results []Completion `json:"results"`
}

// Forecast counts the timers due in each unit of time from From on.
type Forecast struct {
	Unit     string  `json:"unit"`
	Count    int     `json:"count"`
	From     Instant `json:"from"`
	Until    Instant `json:"until"`
	Due      []int   `json:"due"`
	Overdue  int     `json:"overdue"`
	Complete bool    `json:"complete"`
}

// DeadGroup counts the dead letters with one origin and one error.
type DeadGroup struct {
	Origin  string  `json:"origin"`
	Error   string  `json:"error"`
	Count   int     `json:"count"`
	First   Instant `json:"first"`
	Last    Instant `json:"last"`
	Example string  `json:"example"`
}

// DeadResult counts what became of dead letters.
type DeadResult struct {
	Redriven int `json:"redriven"`
	Deleted  int `json:"deleted"`
	Failed   int `json:"failed"`
}
