package tickwheel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Ref names a timer, by ID or by Key.
type Ref struct{ id, key string }

// ID names a timer by its id.
func ID(id string) Ref { return Ref{id: id} }

// Key names the live timer with this key.
func Key(key string) Ref { return Ref{key: key} }

func (r Ref) path(verb string) string {
	if r.id != "" {
		return "/v1/timers/" + url.PathEscape(r.id) + verb
	}
	if verb == "" {
		verb = "/timer"
	}
	if strings.ContainsAny(r.key, `/\%;`) || r.key == "." || r.key == ".." { // a proxy may decode it
		return "/v1/key" + verb + "?key=" + url.QueryEscape(r.key)
	}
	return "/v1/keys/" + url.PathEscape(r.key) + verb
}

func (c *Client) timer(ctx context.Context, call *call) (*Timer, error) {
	timer := new(Timer)
	if err := c.send(ctx, call, timer); err != nil {
		return nil, err
	}
	return timer, nil
}

// Create makes a timer. With a Key that a live timer has, it returns that timer if it is equal, and
// otherwise fails with ErrKeyInUse.
func (c *Client) Create(ctx context.Context, create Create) (*Timer, error) {
	call, err := withJSON("POST", "/v1/timers", create)
	if err != nil {
		return nil, err
	}
	name := create.IdempotencyKey
	if name == "" {
		name = randomKey()
	}
	call.header.Set("Idempotency-Key", name)
	return c.timer(ctx, call)
}

// Put makes the timer with create.Key, or replaces it whole. onlyVersion 0: whatever is there.
func (c *Client) Put(ctx context.Context, create Create, onlyVersion int64) (*Timer, error) {
	key := create.Key
	create.Key = ""
	call, err := withJSON("PUT", Key(key).path(""), create)
	if err != nil {
		return nil, err
	}
	return c.timer(ctx, call.onlyVersion(onlyVersion))
}

// Get fails with ErrGone when the timer is final; the Problem has it.
func (c *Client) Get(ctx context.Context, ref Ref) (*Timer, error) {
	return c.timer(ctx, newCall("GET", ref.path("")))
}

// Change applies a merge patch: what encodes as null is removed. onlyVersion 0: any version.
func (c *Client) Change(ctx context.Context, ref Ref, patch any, onlyVersion int64) (*Timer, error) {
	call, err := withJSON("PATCH", ref.path(""), patch)
	if err != nil {
		return nil, err
	}
	if err := checkDurations(call.body); err != nil {
		return nil, err
	}
	call.header.Set("Content-Type", "application/merge-patch+json")
	return c.timer(ctx, call.onlyVersion(onlyVersion))
}

// When is a time to move timers to: After, or At.
type When struct {
	After Duration `json:"after,omitempty"`
	At    *Instant `json:"at,omitempty"`
}

// Touch puts the timer off; it never makes it earlier.
func (c *Client) Touch(ctx context.Context, ref Ref, when When) (*Timer, error) {
	call, err := withJSON("POST", ref.path("/touch"), when)
	if err != nil {
		return nil, err
	}
	return c.timer(ctx, call)
}

// Cancel: after it returns without an error, no delivery begins. onlyVersion 0: any version.
func (c *Client) Cancel(ctx context.Context, ref Ref, onlyVersion int64) (*Timer, error) {
	call := newCall("DELETE", ref.path("")).onlyVersion(onlyVersion)
	call.isCancel = true
	return c.timer(ctx, call)
}

// act is fire, pause, resume or release of one timer.
func (c *Client) act(ctx context.Context, ref Ref, verb string, body any, onlyVersion int64) (*Timer, error) {
	call := newCall("POST", ref.path("/"+verb))
	if body != nil {
		var err error
		if call, err = withJSON(call.method, call.path, body); err != nil {
			return nil, err
		}
	}
	call.isOnce = (verb == "fire" || verb == "release") && onlyVersion == 0
	return c.timer(ctx, call.onlyVersion(onlyVersion))
}

// Fire fires the timer now; one that repeats fires beside its planned times. With onlyVersion 0 the call is
// not repeated, since it might fire twice.
func (c *Client) Fire(ctx context.Context, ref Ref, onlyVersion int64) (*Timer, error) {
	return c.act(ctx, ref, "fire", nil, onlyVersion)
}

// Pause says why and how long something is paused; Until nil: until it is resumed by a call.
type Pause struct {
	Note  string   `json:"note,omitempty"`
	Until *Instant `json:"until,omitempty"`
}

// Pause: the timer is not delivered before it is resumed. onlyVersion 0: any version.
func (c *Client) Pause(ctx context.Context, ref Ref, pause Pause, onlyVersion int64) (*Timer, error) {
	return c.act(ctx, ref, "pause", pause, onlyVersion)
}

// Resume ends a pause. onlyVersion 0: any version.
func (c *Client) Resume(ctx context.Context, ref Ref, onlyVersion int64) (*Timer, error) {
	return c.act(ctx, ref, "resume", nil, onlyVersion)
}

// Release ends the lease of a queue's item, whose attempt has failed; not-leased if no worker has it. onlyVersion 0:
// any version, and the call is not repeated, since it might end the next lease too.
func (c *Client) Release(ctx context.Context, ref Ref, onlyVersion int64) (*Timer, error) {
	return c.act(ctx, ref, "release", nil, onlyVersion)
}

// Backfill fires the instants of a span of a timer that repeats. It returns the timer that does so.
func (c *Client) Backfill(ctx context.Context, ref Ref, span Span) (*Timer, error) {
	call, err := withJSON("POST", ref.path("/backfill"), span)
	if err != nil {
		return nil, err
	}
	call.header.Set("Idempotency-Key", randomKey())
	return c.timer(ctx, call)
}

// BackfillCount says how many instants a backfill of the span would fire.
func (c *Client) BackfillCount(ctx context.Context, ref Ref, span Span) (*SpanCount, error) {
	call, err := withJSON("POST", ref.path("/backfill"), struct {
		Span
		DryRun bool `json:"dry_run"`
	}{span, true})
	if err != nil {
		return nil, err
	}
	count := new(SpanCount)
	if err := c.send(ctx, call, count); err != nil {
		return nil, err
	}
	return count, nil
}

// idOf returns the id of the timer, live or over.
func (c *Client) idOf(ctx context.Context, ref Ref) (string, error) {
	if ref.id != "" {
		return ref.id, nil
	}
	timer, err := c.Get(ctx, ref)
	var problem *Problem
	if errors.As(err, &problem) && errors.Is(err, ErrGone) && problem.Timer != nil {
		return problem.Timer.ID, nil
	}
	if err != nil {
		return "", err
	}
	return timer.ID, nil
}

// Explain tells where the timer is, what it waits for, and why it was late.
func (c *Client) Explain(ctx context.Context, ref Ref) (map[string]any, error) {
	id, err := c.idOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	return c.figures(ctx, "GET", ID(id).path("/explain"), nil)
}

// Runs are the last firings of a timer that repeats, the newest first.
func (c *Client) Runs(ctx context.Context, ref Ref) ([]Run, error) {
	id, err := c.idOf(ctx, ref)
	if err != nil {
		return nil, err
	}
	var body struct{ Runs []Run }
	err = c.ask(ctx, "GET", ID(id).path("/runs"), nil, &body)
	return body.Runs, err
}

// batchLines is the stream of a batch: a line for each timer, made when it is asked for.
type batchLines struct {
	next func() (Create, bool)
	line []byte
}

func (b *batchLines) Read(room []byte) (int, error) {
	for len(b.line) == 0 {
		create, more := b.next()
		if !more {
			return 0, io.EOF
		}
		text, err := encode(create)
		if err != nil {
			return 0, err
		}
		b.line = append(text, '\n')
	}
	n := copy(room, b.line)
	b.line = b.line[n:]
	return n, nil
}

// Batch makes many timers from a stream: next returns one after the other, and false at the end.
// Each has a result, in order.
func (c *Client) Batch(ctx context.Context, next func() (Create, bool)) ([]BatchResult, error) {
	call := newCall("POST", "/v1/timers/batch")
	call.header.Set("Content-Type", ndjsonType)
	call.stream = &batchLines{next: next}
	var results lines
	err := c.send(ctx, call, &results)
	return results, err
}

// lines reads NDJSON.
type lines []BatchResult

// read of a batch: its answer is not one JSON value but a line each.
func (l *lines) read(text []byte) error {
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, len(text)+1)
	for scanner.Scan() {
		var result BatchResult
		if err := json.Unmarshal(scanner.Bytes(), &result); err != nil {
			return err
		}
		*l = append(*l, result)
	}
	return scanner.Err()
}

// Filter selects timers; what is empty selects all.
type Filter struct {
	States              []string
	Labels              map[string]string
	Target, Origin      string
	KeyPrefix           string // how the key begins
	KeyContains         string // a part of the key
	Flow                string // the key of a flow; of live timers
	Error               string // of dead letters
	DueAfter, DueBefore *Instant
	PageSize            int
}

// labelFilter writes a name that has a colon in quotes.
func labelFilter(name, value string) string {
	if strings.ContainsRune(name, ':') || strings.HasPrefix(name, `"`) {
		name = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return name + ":" + value
}

func (f Filter) query() url.Values {
	query := url.Values{}
	for _, state := range f.States {
		query.Add("state", state)
	}
	for name, value := range f.Labels {
		query.Add("label", labelFilter(name, value))
	}
	for name, value := range map[string]string{"target": f.Target, "origin": f.Origin, "error": f.Error,
		"key_prefix": f.KeyPrefix, "key_contains": f.KeyContains, "flow": f.Flow} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, at := range map[string]*Instant{"due_after": f.DueAfter, "due_before": f.DueBefore} {
		if at != nil {
			query.Set(name, at.String())
		}
	}
	if f.PageSize > 0 {
		query.Set("limit", strconv.Itoa(f.PageSize))
	}
	return query
}

// List calls found for each timer that matches, in due order, page by page, until it returns false.
func (c *Client) List(ctx context.Context, filter Filter, found func(*Timer) bool) error {
	return pages(ctx, c, "/v1/timers", "timers", filter.query(), found)
}

// pages calls found for each of what name lists in the answers.
func pages[T any](ctx context.Context, c *Client, path, name string, query url.Values, found func(*T) bool) error {
	for {
		call := newCall("GET", path)
		call.query = query
		var page map[string]json.RawMessage
		if err := c.send(ctx, call, &page); err != nil {
			return err
		}
		var all []T
		var next *string
		err := json.Unmarshal(page[name], &all)
		if err == nil {
			err = json.Unmarshal(page["next"], &next)
		}
		if err != nil {
			return fmt.Errorf("tickwheel: %w: GET %s: %v", ErrBadAnswer, path, err)
		}
		for i := range all {
			if !found(&all[i]) {
				return nil
			}
		}
		if next == nil {
			return nil
		}
		query.Set("cursor", *next)
	}
}

// Selection names the timers of a call for many: those with these ids and keys, and those that watch
// the event or have all the labels.
type Selection struct {
	IDs    []string          `json:"ids,omitempty"`
	Keys   []string          `json:"keys,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Watch  string            `json:"watch,omitempty"`
}

type selectionAndTime struct {
	Selection
	When
}

func (c *Client) many(ctx context.Context, verb string, body any) (*ManyResult, error) {
	call, err := withJSON("POST", "/v1/timers/"+verb, body)
	if err != nil {
		return nil, err
	}
	call.isOnce = verb == "fire"
	result := new(ManyResult)
	err = c.send(ctx, call, result)
	return result, err
}

// CancelMany cancels all timers that are selected.
func (c *Client) CancelMany(ctx context.Context, selection Selection) (*ManyResult, error) {
	return c.many(ctx, "cancel", selection)
}

// RescheduleMany moves all timers that are selected to one time.
func (c *Client) RescheduleMany(ctx context.Context, selection Selection, when When) (*ManyResult, error) {
	return c.many(ctx, "reschedule", selectionAndTime{selection, when})
}

// TouchMany puts off timers that are selected by ids and keys.
func (c *Client) TouchMany(ctx context.Context, selection Selection, when When) (*ManyResult, error) {
	return c.many(ctx, "touch", selectionAndTime{selection, when})
}

// FireMany fires all timers that are selected. The call is not repeated.
func (c *Client) FireMany(ctx context.Context, selection Selection) (*ManyResult, error) {
	return c.many(ctx, "fire", selection)
}

// PauseMany pauses all timers that are selected.
func (c *Client) PauseMany(ctx context.Context, selection Selection, pause Pause) (*ManyResult, error) {
	return c.many(ctx, "pause", struct {
		Selection
		Pause
	}{selection, pause})
}

// ResumeMany resumes all timers that are selected.
func (c *Client) ResumeMany(ctx context.Context, selection Selection) (*ManyResult, error) {
	return c.many(ctx, "resume", selection)
}

// Complete ends the timers that watch the event; with fire they become due now.
func (c *Client) Complete(ctx context.Context, event string, fire bool) (*Completion, error) {
	call, err := withJSON("POST", "/v1/watch/"+url.PathEscape(event)+"/complete", map[string]bool{"fire": fire})
	if err != nil {
		return nil, err
	}
	result := new(Completion)
	err = c.send(ctx, call, result)
	return result, err
}

// CompleteMany completes up to 5,000 events.
func (c *Client) CompleteMany(ctx context.Context, events []string, fire bool) (*Completions, error) {
	call, err := withJSON("POST", "/v1/watch/complete", map[string]any{"watch": events, "fire": fire})
	if err != nil {
		return nil, err
	}
	result := new(Completions)
	err = c.send(ctx, call, result)
	return result, err
}

// Preview are the next instants of a schedule: Cron with Timezone, or Every; with DST, Except, Only and OnHoliday.
func (c *Client) Preview(ctx context.Context, schedule Schedule, after *Instant, n int) ([]Instant, error) {
	call := newCall("GET", "/v1/schedule/preview")
	call.query = url.Values{}
	for name, value := range map[string]string{"cron": schedule.Cron, "every": string(schedule.Every),
		"timezone": schedule.Timezone, "dst": schedule.DST, "on_holiday": schedule.OnHoliday,
		"except": strings.Join(schedule.Except, ","), "only": strings.Join(schedule.Only, ",")} {
		if value != "" {
			call.query.Set(name, value)
		}
	}
	if after != nil {
		call.query.Set("after", after.String())
	}
	if n > 0 {
		call.query.Set("n", strconv.Itoa(n))
	}
	var body struct{ Instants []Instant }
	err := c.send(ctx, call, &body)
	return body.Instants, err
}

// Forecast counts the timers due in each coming "minute" or "second".
func (c *Client) Forecast(ctx context.Context, unit string, count int) (*Forecast, error) {
	call := newCall("GET", fmt.Sprintf("/v1/forecast?unit=%s&count=%d", url.QueryEscape(unit), count))
	result := new(Forecast)
	err := c.send(ctx, call, result)
	return result, err
}

// AnswerAck ends an attempt that the receiver answered with "Tickwheel-Ack: later": the timer has fired. The URL is the
// webhook's Tickwheel-Ack-Url; its last part is used, with the service of this client.
func (c *Client) AnswerAck(ctx context.Context, ackURL string) error {
	return c.answer(ctx, ackURL, "ack", map[string]any{})
}

// AnswerNack ends it without success; the reason, which may be empty, is the timer's LastError.
func (c *Client) AnswerNack(ctx context.Context, ackURL, reason string) error {
	given := map[string]any{}
	if reason != "" {
		given["reason"] = reason
	}
	return c.answer(ctx, ackURL, "nack", given)
}

// AnswerExtend has the time for the answer end so long from now.
func (c *Client) AnswerExtend(ctx context.Context, ackURL string, by Duration) error {
	return c.answer(ctx, ackURL, "extend", map[string]any{"by": by})
}

func (c *Client) answer(ctx context.Context, ackURL, verb string, given map[string]any) error {
	name := path.Base(strings.SplitN(ackURL, "?", 2)[0]) // the rest of a webhook's URL is not trusted
	call, err := withJSON("POST", "/answers/"+url.PathEscape(name)+"/"+verb, given)
	if err != nil {
		return err
	}
	call.mayBeEarly = true
	return c.send(ctx, call, nil)
}
