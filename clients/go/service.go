package tickwheel

import (
	"context"
	"net/url"
	"strconv"
	"strings"
)

// Queue tells how full a queue is.
type Queue struct {
	Name       string   `json:"name"`
	Ready      int      `json:"ready"`
	Leased     int      `json:"leased"`
	Workers    int      `json:"workers"`
	MoreOnDisk bool     `json:"more_on_disk"`
	Oldest     *Instant `json:"oldest,omitempty"`
	Paused     *Paused  `json:"paused,omitempty"`
}

// Queues are those that a call shows; Complete: all of them.
type Queues struct {
	Queues   []Queue `json:"queues"`
	Complete bool    `json:"complete"`
}

// Target tells what goes to a target, and whether it fails.
type Target struct {
	Target    string  `json:"target"`
	Waiting   int     `json:"waiting"`
	InFlight  int     `json:"in_flight"`
	Breaker   string  `json:"breaker"` // closed, open or half-open
	Failures  int     `json:"failures"`
	LastError string  `json:"last_error,omitempty"`
	Paused    *Paused `json:"paused,omitempty"`
}

// Targets are those that a call shows; Complete: all of them.
type Targets struct {
	Targets  []Target `json:"targets"`
	Complete bool     `json:"complete"`
}

// Hold is what a pause, resume or reset of a queue or a target answers.
type Hold struct {
	Name   string  `json:"name"`
	Paused *Paused `json:"paused,omitempty"`
	Reset  int     `json:"reset"` // breakers that were closed
}

// Count counts live timers; Complete: all of them have been read.
type Count struct {
	Count  int `json:"count"`
	Groups []struct {
		State  string  `json:"state,omitempty"`
		Origin string  `json:"origin,omitempty"`
		Label  *string `json:"label,omitempty"` // nil for timers without it
		Count  int     `json:"count"`
	} `json:"groups"`
	Complete bool `json:"complete"`
}

func (c *Client) ask(ctx context.Context, method, path string, body, result any) error {
	call := newCall(method, path)
	if body != nil {
		var err error
		if call, err = withJSON(method, path, body); err != nil {
			return err
		}
	}
	return c.send(ctx, call, result)
}

// Count counts live timers, apart by "state", "origin" of the target, and the value of a label: "label:team".
func (c *Client) Count(ctx context.Context, by ...string) (*Count, error) {
	count := new(Count)
	path := "/v1/timers/count"
	if len(by) > 0 {
		path += "?by=" + url.QueryEscape(strings.Join(by, ","))
	}
	return count, c.ask(ctx, "GET", path, nil, count)
}

// Queues tells how full the queues are.
func (c *Client) Queues(ctx context.Context) (*Queues, error) {
	queues := new(Queues)
	return queues, c.ask(ctx, "GET", "/v1/queues", nil, queues)
}

// Queue tells how full one queue is.
func (c *Client) Queue(ctx context.Context, name string) (*Queue, error) {
	queue := new(Queue)
	return queue, c.ask(ctx, "GET", "/v1/queues/"+url.PathEscape(name), nil, queue)
}

// Peek returns the next items of the queue, up to max, without a lease.
func (c *Client) Peek(ctx context.Context, queue string, max int) ([]Timer, error) {
	var body struct{ Timers []Timer }
	path := "/v1/queues/" + url.PathEscape(queue) + "/peek?limit=" + strconv.Itoa(max)
	err := c.ask(ctx, "GET", path, nil, &body)
	return body.Timers, err
}

func (c *Client) hold(ctx context.Context, kind, name, verb string, body any) (*Hold, error) {
	hold := new(Hold)
	return hold, c.ask(ctx, "POST", "/v1/"+kind+"/"+url.PathEscape(name)+"/"+verb, body, hold)
}

// PauseQueue: no worker gets an item of the queue before it is resumed.
func (c *Client) PauseQueue(ctx context.Context, queue string, pause Pause) (*Hold, error) {
	return c.hold(ctx, "queues", queue, "pause", pause)
}

// ResumeQueue ends the pause of a queue.
func (c *Client) ResumeQueue(ctx context.Context, queue string) (*Hold, error) {
	return c.hold(ctx, "queues", queue, "resume", nil)
}

// Flows tells which flows have timers that run or wait, and which are paused.
func (c *Client) Flows(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "GET", "/v1/flows", nil)
}

// SetFlow sets limits for all timers of the flow, instead of their own. Key is not part of them.
func (c *Client) SetFlow(ctx context.Context, key string, limits map[string]any) (map[string]any, error) {
	return c.figures(ctx, "PUT", "/v1/flows/"+url.PathEscape(key), limits)
}

// RemoveFlow lets the timers of the flow keep their own limits again.
func (c *Client) RemoveFlow(ctx context.Context, key string) (map[string]any, error) {
	return c.figures(ctx, "DELETE", "/v1/flows/"+url.PathEscape(key), nil)
}

// PauseFlow: no timer of the flow starts before it is resumed.
func (c *Client) PauseFlow(ctx context.Context, key string, pause Pause) (*Hold, error) {
	return c.hold(ctx, "flows", key, "pause", pause)
}

// ResumeFlow ends the pause of a flow.
func (c *Client) ResumeFlow(ctx context.Context, key string) (*Hold, error) {
	return c.hold(ctx, "flows", key, "resume", nil)
}

// Targets tells what goes to each target, and which fail.
func (c *Client) Targets(ctx context.Context) (*Targets, error) {
	targets := new(Targets)
	return targets, c.ask(ctx, "GET", "/v1/targets", nil, targets)
}

// PauseTarget: nothing is sent to the target, such as https://shop.example, before it is resumed.
func (c *Client) PauseTarget(ctx context.Context, target string, pause Pause) (*Hold, error) {
	return c.hold(ctx, "targets", target, "pause", pause)
}

// ResumeTarget ends the pause of a target.
func (c *Client) ResumeTarget(ctx context.Context, target string) (*Hold, error) {
	return c.hold(ctx, "targets", target, "resume", nil)
}

// ResetTarget closes the breakers of a target.
func (c *Client) ResetTarget(ctx context.Context, target string) (*Hold, error) {
	return c.hold(ctx, "targets", target, "reset", nil)
}

// Day is a date of a calendar, such as 2026-12-24, or a range: 2026-12-24/2027-01-01.
type Day struct {
	Date string `json:"date"`
	Name string `json:"name,omitempty"`
}

// Calendar is a calendar of holidays that schedules can name.
type Calendar struct {
	Name  string  `json:"name"`
	Scope string  `json:"scope"` // "tenant", or "all" for one of the daemon's settings
	Since Instant `json:"since"` // when the tenant set it
	Days  []Day   `json:"days"`  // those that end today or later
}

// Calendars lists the calendars that schedules can name, without their days.
func (c *Client) Calendars(ctx context.Context) ([]Calendar, error) {
	var body struct{ Calendars []Calendar }
	err := c.ask(ctx, "GET", "/v1/calendars", nil, &body)
	return body.Calendars, err
}

// Calendar shows the coming days of a calendar.
func (c *Client) Calendar(ctx context.Context, name string) (*Calendar, error) {
	calendar := new(Calendar)
	return calendar, c.ask(ctx, "GET", "/v1/calendars/"+url.PathEscape(name), nil, calendar)
}

// PutCalendar sets a calendar of the tenant.
func (c *Client) PutCalendar(ctx context.Context, name string, days []Day) (*Calendar, error) {
	calendar := new(Calendar)
	return calendar, c.ask(ctx, "PUT", "/v1/calendars/"+url.PathEscape(name), days, calendar)
}

// DeleteCalendar deletes a calendar of the tenant.
func (c *Client) DeleteCalendar(ctx context.Context, name string) (*Calendar, error) {
	calendar := new(Calendar)
	return calendar, c.ask(ctx, "DELETE", "/v1/calendars/"+url.PathEscape(name), nil, calendar)
}

func (c *Client) figures(ctx context.Context, method, path string, body any) (map[string]any, error) {
	var figures map[string]any
	err := c.ask(ctx, method, path, body, &figures)
	return figures, err
}

// DeliveryFilter selects deliveries; what is empty selects all.
type DeliveryFilter struct {
	Timer    string // its id
	Key      string
	Target   string
	Origin   string
	Outcomes []string // done, failed, ended
	Status   string   // of the answer, such as 503 or 5xx
	Since    *Instant
	PageSize int
}

// Deliveries calls found for what became of each attempt, the newest first, until it returns false.
func (c *Client) Deliveries(ctx context.Context, filter DeliveryFilter, found func(*Delivery) bool) error {
	query := Filter{Target: filter.Target, Origin: filter.Origin, PageSize: filter.PageSize}.query()
	for name, text := range map[string]string{"timer": filter.Timer, "key": filter.Key, "status": filter.Status} {
		if text != "" {
			query.Set(name, text)
		}
	}
	if filter.Since != nil {
		query.Set("since", filter.Since.String())
	}
	query["outcome"] = filter.Outcomes
	return pages(ctx, c, "/v1/deliveries", "deliveries", query, found)
}

// ScheduleFilter selects timers that repeat; what is empty selects all.
type ScheduleFilter struct {
	Filter          // without states
	Last   []string // how the last firing ended: never, ok, failed, skipped
	Sort   string   // next, last or failures
}

// Schedules calls found for each timer that repeats, until it returns false.
func (c *Client) Schedules(ctx context.Context, filter ScheduleFilter, found func(*ScheduleState) bool) error {
	query := filter.query()
	if filter.Sort != "" {
		query.Set("sort", filter.Sort)
	}
	query["last"] = filter.Last
	return pages(ctx, c, "/v1/schedules", "schedules", query, found)
}

// Health tells whether the process runs.
func (c *Client) Health(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "GET", "/healthz", nil)
}

// Ready returns when requests are served. Otherwise it fails with a Problem, whose detail says why; the call is not
// repeated.
func (c *Client) Ready(ctx context.Context) (map[string]any, error) {
	call := newCall("GET", "/readyz")
	call.isOnce = true
	var figures map[string]any
	err := c.send(ctx, call, &figures)
	return figures, err
}

// Metrics returns the metrics in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	var text string
	err := c.send(ctx, newCall("GET", "/metrics"), &text)
	return text, err
}

// Stats are the main figures of the daemon.
func (c *Client) Stats(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "GET", "/v1/stats", nil)
}

// History is the past of the main figures: of "1h", "24h" or "7d".
func (c *Client) History(ctx context.Context, window string) (map[string]any, error) {
	return c.figures(ctx, "GET", "/v1/history?window="+url.QueryEscape(window), nil)
}

// Verdict says whether timers are on time, and who waits for what.
func (c *Client) Verdict(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "GET", "/v1/verdict", nil)
}

// Cluster tells of the nodes of the cluster and its partitions.
func (c *Client) Cluster(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "GET", "/v1/cluster", nil)
}

// NamedTargets lists the named targets, without their secrets.
func (c *Client) NamedTargets(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "GET", "/v1/named-targets", nil)
}

// NamedTarget gets a named target, without its secrets.
func (c *Client) NamedTarget(ctx context.Context, name string) (map[string]any, error) {
	return c.figures(ctx, "GET", "/v1/named-targets/"+url.PathEscape(name), nil)
}

// SetNamedTarget defines a named target, or replaces its definition, if it has the version, or, with 0, any:
// "url", "method", "headers", "auth", "ca". Secrets that are left out stay.
func (c *Client) SetNamedTarget(ctx context.Context, name string, definition any, ifVersion int64) (map[string]any, error) {
	call, err := withJSON("PUT", "/v1/named-targets/"+url.PathEscape(name), definition)
	if err != nil {
		return nil, err
	}
	var target map[string]any
	err = c.send(ctx, call.onlyVersion(ifVersion), &target)
	return target, err
}

// RotateNamedTarget replaces the secrets that sign the webhooks of a named target: "signing". Those of before sign
// too for the time of "overlap".
func (c *Client) RotateNamedTarget(ctx context.Context, name string, rotation any) (map[string]any, error) {
	call, err := withJSON("POST", "/v1/named-targets/"+url.PathEscape(name)+"/rotate", rotation)
	if err != nil {
		return nil, err
	}
	call.isOnce = true
	var target map[string]any
	err = c.send(ctx, call, &target)
	return target, err
}

// RemoveNamedTarget removes a named target, if it has the version, or, with 0, any. Attempts of its timers fail
// until it is defined again.
func (c *Client) RemoveNamedTarget(ctx context.Context, name string, ifVersion int64) (map[string]any, error) {
	var target map[string]any
	call := newCall("DELETE", "/v1/named-targets/"+url.PathEscape(name)).onlyVersion(ifVersion)
	err := c.send(ctx, call, &target)
	return target, err
}

// ResealNamedTargets seals all secrets with the first key of the daemon.
func (c *Client) ResealNamedTargets(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "POST", "/v1/named-targets/reseal", nil)
}

// TokenKeys are the keys of the tokens (JWT) of webhooks that the daemon makes itself, and where each stands.
func (c *Client) TokenKeys(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "GET", "/v1/token-keys", nil)
}

// RotateTokenKeys makes a new key, "ES256" or "RS256", which signs when the overlap is over; empty: ES256, and a day.
func (c *Client) RotateTokenKeys(ctx context.Context, overlap Duration, alg string) (map[string]any, error) {
	rotation := map[string]any{}
	if overlap != "" {
		rotation["overlap"] = overlap
	}
	if alg != "" {
		rotation["alg"] = alg
	}
	call, err := withJSON("POST", "/v1/token-keys/rotate", rotation)
	if err != nil {
		return nil, err
	}
	call.isOnce = true
	var keys map[string]any
	err = c.send(ctx, call, &keys)
	return keys, err
}

// DrainNode has a node of the cluster give its partitions to the others, and take none back.
func (c *Client) DrainNode(ctx context.Context, node int) (map[string]any, error) {
	return c.figures(ctx, "PUT", "/v1/cluster/nodes/"+strconv.Itoa(node)+"/drain", nil)
}

// UndrainNode lets a node take partitions again.
func (c *Client) UndrainNode(ctx context.Context, node int) (map[string]any, error) {
	return c.figures(ctx, "DELETE", "/v1/cluster/nodes/"+strconv.Itoa(node)+"/drain", nil)
}

// Tenants tells what each tenant uses, and its limits.
func (c *Client) Tenants(ctx context.Context) ([]map[string]any, error) {
	var all []map[string]any
	for path := "/v1/tenants"; ; {
		var page struct {
			Tenants []map[string]any
			Next    *string
		}
		if err := c.ask(ctx, "GET", path, nil, &page); err != nil {
			return all, err
		}
		all = append(all, page.Tenants...)
		if page.Next == nil {
			return all, nil
		}
		path = "/v1/tenants?cursor=" + url.QueryEscape(*page.Next)
	}
}

// Maintenance tells whether all deliveries are held back.
func (c *Client) Maintenance(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "GET", "/v1/admin/maintenance", nil)
}

// BeginMaintenance holds all deliveries back; the note may be empty.
func (c *Client) BeginMaintenance(ctx context.Context, note string) (map[string]any, error) {
	return c.figures(ctx, "PUT", "/v1/admin/maintenance", Pause{Note: note})
}

// EndMaintenance lets deliveries go on.
func (c *Client) EndMaintenance(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "DELETE", "/v1/admin/maintenance", nil)
}

// Backup copies the data folder while the daemon runs.
func (c *Client) Backup(ctx context.Context) (map[string]any, error) {
	return c.figures(ctx, "POST", "/v1/admin/backup", nil)
}
