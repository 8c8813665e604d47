package tickwheel

import (
	"context"
	"net/url"
	"time"
)

// Lease returns up to max due items, for this worker alone until the lease ends; it waits that long
// for the first one.
func (c *Client) Lease(ctx context.Context, queue string, max int, wait, lease time.Duration) ([]Item, error) {
	call, err := withJSON("POST", "/v1/queues/"+url.PathEscape(queue)+"/lease",
		map[string]any{"max": max, "wait": wait.Milliseconds(), "lease": lease.Milliseconds()})
	if err != nil {
		return nil, err
	}
	call.wait = wait
	var body struct {
		Items       []Item
		LeasedUntil *Instant `json:"leased_until"`
	}
	if err := c.send(ctx, call, &body); err != nil {
		return nil, err
	}
	for i := range body.Items {
		if body.LeasedUntil != nil {
			body.Items[i].LeasedUntil = *body.LeasedUntil
		}
	}
	return body.Items, nil
}

// Nack says how items failed.
type Nack struct {
	Delay Duration `json:"delay,omitempty"` // empty: as the timer's retry says
	Error string   `json:"error,omitempty"`
	Dead  bool     `json:"dead,omitempty"`
}

func (c *Client) receipts(ctx context.Context, queue, verb string, body any) ([]string, error) {
	call, err := withJSON("POST", "/v1/queues/"+url.PathEscape(queue)+"/"+verb, body)
	if err != nil {
		return nil, err
	}
	var answer struct{ Results []string }
	err = c.send(ctx, call, &answer)
	return answer.Results, err
}

// Ack: each result is "ok" for an item that is done for good, otherwise "stale" or "unknown".
func (c *Client) Ack(ctx context.Context, queue string, receipts ...string) ([]string, error) {
	return c.receipts(ctx, queue, "ack", map[string]any{"receipts": receipts})
}

// Nack gives items back.
func (c *Client) Nack(ctx context.Context, queue string, nack Nack, receipts ...string) ([]string, error) {
	return c.receipts(ctx, queue, "nack", struct {
		Receipts []string `json:"receipts"`
		Nack
	}{receipts, nack})
}

// Extend makes leases end that long from now.
func (c *Client) Extend(ctx context.Context, queue string, lease time.Duration, receipts ...string) ([]string, error) {
	return c.receipts(ctx, queue, "extend", map[string]any{"receipts": receipts, "lease": lease.Milliseconds()})
}

// Dead calls found for each dead letter that matches, oldest first, until it
// returns false.
func (c *Client) Dead(ctx context.Context, filter Filter, found func(*Timer) bool) error {
	return pages(ctx, c, "/v1/dead", "timers", filter.query(), found)
}

// DeadGroups counts dead letters by origin and error.
func (c *Client) DeadGroups(ctx context.Context, filter Filter) ([]DeadGroup, error) {
	call := newCall("GET", "/v1/dead/groups")
	call.query = filter.query()
	var body struct{ Groups []DeadGroup }
	err := c.send(ctx, call, &body)
	return body.Groups, err
}

// Redrive selects the dead letters that become due again. Rate is how many a second; 0: all at once. They go to
// NewTarget, if it is set.
type Redrive struct {
	IDs       []string          `json:"ids,omitempty"`
	Target    string            `json:"target,omitempty"`
	Origin    string            `json:"origin,omitempty"`
	Error     string            `json:"error,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	All       bool              `json:"all,omitempty"`
	Rate      int               `json:"rate,omitempty"`
	NewTarget string            `json:"new_target,omitempty"`
}

// RedriveDead redrives all dead letters that match.
func (c *Client) RedriveDead(ctx context.Context, redrive Redrive) (*DeadResult, error) {
	return c.deadPages(ctx, func(cursor string) (*call, error) {
		return withJSON("POST", "/v1/dead/redrive", struct {
			Redrive
			Cursor string `json:"cursor,omitempty"`
		}{redrive, cursor})
	})
}

// DeleteDeadLetter deletes one dead letter.
func (c *Client) DeleteDeadLetter(ctx context.Context, id string) (*Timer, error) {
	return c.timer(ctx, newCall("DELETE", "/v1/dead/"+url.PathEscape(id)))
}

// DeleteDead deletes all dead letters that match, and every one if all is set and the filter empty.
// This cannot be undone.
func (c *Client) DeleteDead(ctx context.Context, filter Filter, all bool) (*DeadResult, error) {
	return c.deadPages(ctx, func(cursor string) (*call, error) {
		call := newCall("DELETE", "/v1/dead")
		call.query = filter.query()
		if all {
			call.query.Set("all", "true")
		}
		if cursor != "" {
			call.query.Set("cursor", cursor)
		}
		return call, nil
	})
}

func (c *Client) deadPages(ctx context.Context, page func(cursor string) (*call, error)) (*DeadResult, error) {
	total := new(DeadResult)
	for cursor := ""; ; {
		call, err := page(cursor)
		if err != nil {
			return total, err
		}
		var body struct {
			DeadResult
			Next *string
		}
		if err := c.send(ctx, call, &body); err != nil {
			return total, err
		}
		total.Redriven += body.Redriven
		total.Deleted += body.Deleted
		total.Failed += body.Failed
		if body.Next == nil {
			return total, nil
		}
		cursor = *body.Next
	}
}
