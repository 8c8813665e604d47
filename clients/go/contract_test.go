package tickwheel

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The contract of all client libraries (clients/contract), on a real daemon.

type contractStep struct {
	Do     string
	With   json.RawMessage
	Expect any
	Error  map[string]any
	Save   map[string]string
}

type contractCase struct {
	Name  string
	Steps []contractStep
}

// contractArguments has the arguments of all calls; each uses its own.
type contractArguments struct {
	ID          string
	Key         string
	Limits      map[string]any
	IfVersion   int64 `json:"if_version"`
	Patch       map[string]any
	Timers      []Create
	Labels      map[string]string
	States      []string
	Keys        []string
	Target      string
	NewTarget   string   `json:"new_target"`
	PageSize    int      `json:"page_size"`
	DueAfter    *Instant `json:"due_after"`
	DueBefore   *Instant `json:"due_before"`
	Event       string
	Events      []string
	Cron        string
	Timezone    string
	N           int
	Unit        string
	Window      string
	Count       int
	Queue       string
	Calendar    string
	Days        []Day
	Max         int
	Wait        string
	Lease       string
	Receipts    []string
	Secret      string
	Headers     map[string]string
	Body        []byte `json:"body_base64"`
	Note        string
	Until       *Instant
	By          oneOrMore
	URL         string
	Reason      string
	Types       []string
	Take        int
	KeyPrefix   string `json:"key_prefix"`
	Last        []string
	Sort        string
	Timer       string
	Outcomes    []string
	Status      string
	Since       *Instant
	Has         string
	Node        int
	Name        string
	Definition  map[string]any
	Rotation    map[string]any
	KeyContains string `json:"key_contains"`
	Origin      string `json:"origin"`
	Overlap     string
	FlowKey     string `json:"flow_key"`
	Except      []string
	Only        []string
	OnHoliday   string `json:"on_holiday"`
	Alg         string
}

// oneOrMore is a list, or a text in place of a list with it alone.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		*o = []string{""}
		return json.Unmarshal(text, &(*o)[0])
	}
	return json.Unmarshal(text, (*[]string)(o))
}

func parseDuration(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return otherwise
}

func runServiceStep(ctx context.Context, c *Client, do string, a contractArguments, pause Pause) (any, error) {
	switch do {
	case "events":
		events := []Event{}
		err := c.Events(ctx, EventFilter{Types: a.Types, Labels: a.Labels}, func(event *Event) bool {
			events = append(events, *event)
			return len(events) < a.Take
		})
		return events, err
	case "count":
		return c.Count(ctx, a.By...)
	case "schedules":
		schedules := []ScheduleState{}
		err := c.Schedules(ctx, ScheduleFilter{Filter: Filter{Labels: a.Labels, Target: a.Target, KeyPrefix: a.KeyPrefix,
			PageSize: a.PageSize}, Last: a.Last, Sort: a.Sort},
			func(schedule *ScheduleState) bool { schedules = append(schedules, *schedule); return true })
		return schedules, err
	case "deliveries":
		deliveries := []Delivery{}
		err := c.Deliveries(ctx, DeliveryFilter{Timer: a.Timer, Key: a.Key, Target: a.Target, Outcomes: a.Outcomes,
			Status: a.Status, Since: a.Since, PageSize: a.PageSize},
			func(delivery *Delivery) bool { deliveries = append(deliveries, *delivery); return true })
		return deliveries, err
	case "health":
		return c.Health(ctx)
	case "ready":
		return c.Ready(ctx)
	case "metrics":
		text, err := c.Metrics(ctx)
		return strings.Contains(text, a.Has), err
	case "queues":
		return c.Queues(ctx)
	case "queue":
		return c.Queue(ctx, a.Queue)
	case "peek":
		return c.Peek(ctx, a.Queue, a.Max)
	case "queue_pause":
		return c.PauseQueue(ctx, a.Queue, pause)
	case "queue_resume":
		return c.ResumeQueue(ctx, a.Queue)
	case "flows":
		return c.Flows(ctx)
	case "flow_set":
		return c.SetFlow(ctx, a.Key, a.Limits)
	case "flow_remove":
		return c.RemoveFlow(ctx, a.Key)
	case "flow_pause":
		return c.PauseFlow(ctx, a.Key, pause)
	case "flow_resume":
		return c.ResumeFlow(ctx, a.Key)
	case "targets":
		return c.Targets(ctx)
	case "target_pause":
		return c.PauseTarget(ctx, a.Target, pause)
	case "target_resume":
		return c.ResumeTarget(ctx, a.Target)
	case "target_reset":
		return c.ResetTarget(ctx, a.Target)
	case "calendars":
		return c.Calendars(ctx)
	case "calendar":
		return c.Calendar(ctx, a.Calendar)
	case "calendar_put":
		return c.PutCalendar(ctx, a.Calendar, a.Days)
	case "answer_ack":
		return nil, c.AnswerAck(ctx, a.URL)
	case "answer_nack":
		return nil, c.AnswerNack(ctx, a.URL, a.Reason)
	case "answer_extend":
		return nil, c.AnswerExtend(ctx, a.URL, Duration(a.By[0]))
	case "calendar_delete":
		return c.DeleteCalendar(ctx, a.Calendar)
	case "stats":
		return c.Stats(ctx)
	case "history":
		return c.History(ctx, a.Window)
	case "verdict":
		return c.Verdict(ctx)
	case "tenants":
		return c.Tenants(ctx)
	case "cluster":
		return c.Cluster(ctx)
	case "named_targets":
		return c.NamedTargets(ctx)
	case "named_target_get":
		return c.NamedTarget(ctx, a.Name)
	case "named_target_set":
		return c.SetNamedTarget(ctx, a.Name, a.Definition, a.IfVersion)
	case "named_target_rotate":
		return c.RotateNamedTarget(ctx, a.Name, a.Rotation)
	case "named_target_remove":
		return c.RemoveNamedTarget(ctx, a.Name, a.IfVersion)
	case "named_targets_reseal":
		return c.ResealNamedTargets(ctx)
	case "token_keys":
		return c.TokenKeys(ctx)
	case "token_keys_rotate":
		return c.RotateTokenKeys(ctx, Duration(a.Overlap), a.Alg)
	case "cluster_drain":
		return c.DrainNode(ctx, a.Node)
	case "cluster_undrain":
		return c.UndrainNode(ctx, a.Node)
	case "maintenance":
		return c.Maintenance(ctx)
	case "maintenance_begin":
		return c.BeginMaintenance(ctx, a.Note)
	case "maintenance_end":
		return c.EndMaintenance(ctx)
	case "backup":
		return c.Backup(ctx)
	}
	return nil, fmt.Errorf("no call %q", do)
}

func runContractStep(ctx context.Context, c *Client, step contractStep, with []byte) (any, error) {
	if step.Do == "faults" {
		response, err := http.Post(c.url+"/_faults", jsonType, strings.NewReader(string(with)))
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		var left map[string]any
		err = json.NewDecoder(response.Body).Decode(&left)
		return left, err
	}
	var a contractArguments
	var when When
	var create Create
	if step.Do == "create" || step.Do == "put" {
		if err := json.Unmarshal(with, &create); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(with, &a); err != nil && step.Do != "create" && step.Do != "put" {
		return nil, err
	}
	if strings.HasPrefix(step.Do, "touch") || strings.HasPrefix(step.Do, "reschedule") {
		if err := json.Unmarshal(with, &when); err != nil {
			return nil, err
		}
	}
	ref := ID(a.ID)
	if a.Key != "" {
		ref = Key(a.Key)
	}
	filter := Filter{States: a.States, Labels: a.Labels, Target: a.Target, Origin: a.Origin, KeyPrefix: a.KeyPrefix,
		KeyContains: a.KeyContains, Flow: a.FlowKey, DueAfter: a.DueAfter, DueBefore: a.DueBefore, PageSize: a.PageSize}
	var span Span
	if strings.HasPrefix(step.Do, "backfill") {
		if err := json.Unmarshal(with, &span); err != nil {
			return nil, err
		}
	}
	selection := Selection{Keys: a.Keys, Labels: a.Labels}
	pause := Pause{Note: a.Note, Until: a.Until}
	timers := []Timer{}
	collect := func(timer *Timer) bool { timers = append(timers, *timer); return true }
	switch step.Do {
	case "create":
		return c.Create(ctx, create)
	case "put":
		return c.Put(ctx, create, a.IfVersion)
	case "get":
		return c.Get(ctx, ref)
	case "change":
		return c.Change(ctx, ref, a.Patch, a.IfVersion)
	case "touch":
		return c.Touch(ctx, ref, when)
	case "cancel":
		return c.Cancel(ctx, ref, a.IfVersion)
	case "list":
		err := c.List(ctx, filter, collect)
		return timers, err
	case "batch":
		next := 0
		results, err := c.Batch(ctx, func() (Create, bool) {
			if next == len(a.Timers) {
				return Create{}, false
			}
			next++
			return a.Timers[next-1], true
		})
		lines := []map[string]any{}
		for _, result := range results {
			line := map[string]any{"id": result.ID, "existed": result.Existed}
			if result.Err != nil {
				line["error"] = result.Err
			}
			lines = append(lines, line)
		}
		return lines, err
	case "cancel_many":
		return c.CancelMany(ctx, selection)
	case "touch_many":
		return c.TouchMany(ctx, selection, when)
	case "reschedule_many":
		return c.RescheduleMany(ctx, selection, when)
	case "complete":
		return c.Complete(ctx, a.Event, false)
	case "complete_many":
		return c.CompleteMany(ctx, a.Events, false)
	case "preview":
		var after struct{ After *Instant }
		_ = json.Unmarshal(with, &after)
		return c.Preview(ctx, Schedule{Cron: a.Cron, Timezone: a.Timezone, Except: a.Except, Only: a.Only, OnHoliday: a.OnHoliday},
			after.After, a.N)
	case "runs":
		return c.Runs(ctx, ref)
	case "explain":
		return c.Explain(ctx, ref)
	case "forecast":
		return c.Forecast(ctx, a.Unit, a.Count)
	case "lease":
		max := a.Max
		if max == 0 {
			max = 1
		}
		return c.Lease(ctx, a.Queue, max, parseDuration(a.Wait, 0), parseDuration(a.Lease, 30*time.Second))
	case "ack":
		return c.Ack(ctx, a.Queue, a.Receipts...)
	case "nack":
		var nack Nack
		_ = json.Unmarshal(with, &nack)
		return c.Nack(ctx, a.Queue, nack, a.Receipts...)
	case "extend":
		return c.Extend(ctx, a.Queue, parseDuration(a.Lease, 0), a.Receipts...)
	case "fire":
		return c.Fire(ctx, ref, a.IfVersion)
	case "pause":
		return c.Pause(ctx, ref, pause, a.IfVersion)
	case "resume":
		return c.Resume(ctx, ref, a.IfVersion)
	case "release":
		return c.Release(ctx, ref, a.IfVersion)
	case "backfill":
		return c.Backfill(ctx, ref, span)
	case "backfill_count":
		return c.BackfillCount(ctx, ref, span)
	case "fire_many":
		return c.FireMany(ctx, selection)
	case "pause_many":
		return c.PauseMany(ctx, selection, pause)
	case "resume_many":
		return c.ResumeMany(ctx, selection)
	case "dead_delete_one":
		return c.DeleteDeadLetter(ctx, a.ID)
	case "dead_list":
		err := c.Dead(ctx, filter, collect)
		return timers, err
	case "dead_groups":
		return c.DeadGroups(ctx, filter)
	case "dead_redrive":
		return c.RedriveDead(ctx, Redrive{Target: a.Target, NewTarget: a.NewTarget})
	case "dead_delete":
		return c.DeleteDead(ctx, filter, false)
	case "verify":
		verifier, err := NewVerifier(a.Secret)
		if err != nil {
			return nil, err
		}
		header := http.Header{}
		for name, value := range a.Headers {
			header.Set(name, value)
		}
		return verifier.IsValid(header, a.Body), nil
	}
	return runServiceStep(ctx, c, step.Do, a, pause)
}

// asJSON is the value as its JSON has it.
func asJSON(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var plain any
	_ = json.Unmarshal(text, &plain)
	return plain
}

func fillIn(value any, names map[string]string) any {
	switch v := value.(type) {
	case string:
		for name, text := range names {
			v = strings.ReplaceAll(v, "${"+name+"}", text)
		}
		return v
	case []any:
		filled := make([]any, len(v))
		for i := range v {
			filled[i] = fillIn(v[i], names)
		}
		return filled
	case map[string]any:
		filled := map[string]any{}
		for name := range v {
			filled[name] = fillIn(v[name], names)
		}
		return filled
	}
	return value
}

// difference tells where something that is expected is not there; there may be more.
func difference(expected, seen any, where string) string {
	switch e := expected.(type) {
	case map[string]any:
		s, ok := seen.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v", where, seen)
		}
		for name, value := range e {
			if d := difference(value, s[name], where+"."+name); d != "" {
				return d
			}
		}
	case []any:
		s, ok := seen.([]any)
		if seen == nil {
			s, ok = []any{}, true // a nil slice
		}
		if !ok || len(s) != len(e) {
			return fmt.Sprintf("%s is %v, not %v", where, seen, expected)
		}
		for i := range e {
			if d := difference(e[i], s[i], where+"["+strconv.Itoa(i)+"]"); d != "" {
				return d
			}
		}
	default:
		if seen == nil && (expected == false || expected == float64(0)) {
			return "" // left out when it is zero
		}
		if seen != expected {
			return fmt.Sprintf("%s is %v, not %v", where, seen, expected)
		}
	}
	return ""
}

func find(value any, path string) string {
	for _, part := range strings.Split(path, ".") {
		if i, err := strconv.Atoi(part); err == nil {
			value = value.([]any)[i]
		} else {
			value = value.(map[string]any)[part]
		}
	}
	return value.(string)
}

func errorAsJSON(err error) any {
	var problem *Problem
	if errors.As(err, &problem) {
		return asJSON(problem)
	}
	for _, kind := range []error{ErrUnreachable, ErrUnknownOutcome, ErrBadAnswer} {
		if errors.Is(err, kind) {
			return map[string]any{"type": kind.Error()}
		}
	}
	return map[string]any{"type": err.Error()}
}

func runContractCase(t *testing.T, c *Client, one contractCase) {
	var bytes [6]byte
	_, _ = rand.Read(bytes[:])
	names := map[string]string{"run": hex.EncodeToString(bytes[:])}
	for i, step := range one.Steps {
		where := fmt.Sprintf("step %d, %s", i+1, step.Do)
		var with any
		if err := json.Unmarshal(step.With, &with); err != nil {
			t.Fatal(err)
		}
		text, _ := encode(fillIn(with, names))
		value, err := runContractStep(context.Background(), c, step, text)
		if (err != nil) != (step.Error != nil) {
			t.Fatalf("%s: %v, error %v", where, value, err)
		}
		if err != nil {
			if d := difference(fillIn(map[string]any(step.Error), names), errorAsJSON(err), "error"); d != "" {
				t.Fatalf("%s: %s", where, d)
			}
			continue
		}
		seen := asJSON(value)
		if step.Expect != nil {
			if d := difference(fillIn(step.Expect, names), seen, "answer"); d != "" {
				t.Fatalf("%s: %s", where, d)
			}
		}
		for name, path := range step.Save {
			names[name] = find(seen, path)
		}
	}
}

func testClient(t *testing.T) *Client {
	if os.Getenv("TICKWHEEL_URL") == "" {
		t.Skip("run by package_test.py, which starts a daemon")
	}
	c, err := New("", WithRetries(5, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestABareNumberIsNoDuration(t *testing.T) {
	var create Create
	c, _ := New("http://localhost:1", WithRetries(0, 0))
	for _, text := range []string{`{"after":30}`, `{"every":1.5}`, `{"retry":{"base":5}}`, `{"late":{"drop_after":5}}`} {
		_, err := c.Change(context.Background(), ID("a"), json.RawMessage(text), 0)
		for _, err := range []error{json.Unmarshal([]byte(text), &create), err} {
			if err == nil || !strings.Contains(err.Error(), "is no duration") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	patch := map[string]any{"after": time.Minute} // nanoseconds
	if _, err := c.Change(context.Background(), ID("a"), patch, 0); !strings.Contains(fmt.Sprint(err), "is no duration") {
		t.Error(err)
	}
	if text := After(30 * time.Second); text != "30000ms" {
		t.Error(text)
	}
}

func TestContract(t *testing.T) {
	c := testClient(t)
	files, _ := filepath.Glob(filepath.Join(os.Getenv("TICKWHEEL_CONTRACT"), "*.json"))
	if len(files) == 0 {
		t.Fatal("no contract")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []contractCase
		if err := json.Unmarshal(text, &cases); err != nil {
			t.Fatal(file, err)
		}
		for _, one := range cases {
			t.Run(one.Name, func(t *testing.T) { runContractCase(t, c, one) })
		}
	}
}
