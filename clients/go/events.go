package tickwheel

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// EventFilter selects events; what is empty selects all.
type EventFilter struct {
	Types       []string
	Labels      map[string]string
	Target      string
	Origin      string
	KeyPrefix   string
	LastEventID string // of the event after which the stream goes on
}

// Event is what happened, see docs/api.md#watching. Of the type "lost": events are missing here.
type Event struct {
	ID    string   `json:"id"`
	Type  string   `json:"type"`
	At    *Instant `json:"at,omitempty"`
	Timer *Timer   `json:"timer,omitempty"` // as it was then, without payload and headers
	Name  string   `json:"name,omitempty"`  // of a queue or a target
}

// Events calls found for each event as it happens, until it returns false or the context ends. It goes on behind
// a connection that is lost, and fails with ErrUnreachable after as many tries in vain as other calls have.
func (c *Client) Events(ctx context.Context, filter EventFilter, found func(*Event) bool) error {
	call := newCall("GET", "/v1/events")
	call.query = Filter{Labels: filter.Labels, Target: filter.Target, Origin: filter.Origin}.query()
	for _, each := range filter.Types {
		call.query.Add("type", each)
	}
	if filter.KeyPrefix != "" {
		call.query.Set("key_prefix", filter.KeyPrefix)
	}
	call.header.Set("Accept", "text/event-stream")
	last := filter.LastEventID
	for tried := 1; ; tried++ {
		if last != "" {
			call.header.Set("Last-Event-ID", last)
		}
		isOver := false
		a, err := c.listen(ctx, call, func(event *Event) bool {
			tried = 0
			if event.ID != "" {
				last = event.ID
			}
			isOver = !found(event)
			return !isOver
		})
		if isOver {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if tried == 0 {
			tried = 1 // after an event it begins anew
		}
		pause, again := c.pauseAfter(tried, a)
		if !again && a != nil {
			return call.read(a, false, &Event{})
		}
		if !again {
			return fmt.Errorf("tickwheel: %w: GET %s: %v", ErrUnreachable, call.path, err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// listen reads one stream to its end. An answer that is no stream is returned.
func (c *Client) listen(ctx context.Context, call *call, found func(*Event) bool) (*answer, error) {
	response, err := c.open(ctx, call)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return readAnswer(response)
	}
	event := Event{}
	for reader := bufio.NewReader(response.Body); ; {
		line, err := reader.ReadString('\n')
		if err != nil {
			return nil, err
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			event.ID = value
		case "event":
			event.Type = value
		case "data":
			if err := json.Unmarshal([]byte(value), &event); err != nil {
				return nil, io.ErrUnexpectedEOF
			}
			if !found(&event) {
				return nil, nil
			}
			event = Event{}
		}
	}
}
