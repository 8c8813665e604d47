package tickwheel

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Row is a row that a statement returned, as database/sql and pgx have it.
type Row interface{ Scan(results ...any) error }

// Querier runs a statement that returns one row, in the caller's transaction; SQL and Pgx make one.
type Querier func(ctx context.Context, statement string, arguments ...any) Row

// SQL takes a *sql.Tx of database/sql, or what has its method, as *sql.Conn and the types of sqlx.
func SQL(tx interface {
	QueryRowContext(ctx context.Context, statement string, arguments ...any) *sql.Row
}) Querier {
	return func(ctx context.Context, statement string, arguments ...any) Row {
		return tx.QueryRowContext(ctx, statement, arguments...)
	}
}

// Pgx takes a pgx.Tx, or what has its method, as *pgx.Conn. Before Go 1.21 write Pgx[pgx.Row].
func Pgx[R Row](tx interface {
	QueryRow(ctx context.Context, statement string, arguments ...any) R
}) Querier {
	return func(ctx context.Context, statement string, arguments ...any) Row {
		return tx.QueryRow(ctx, statement, arguments...)
	}
}

// Transaction has calls that are rows of an outbox: they take effect if the caller's transaction commits. Each returns
// the number of its row, which is `id` in tickwheel.rejected if the service refuses it later. An error of the database
// is that of its driver.
type Transaction struct{ query Querier }

// InTransaction has the calls that take effect if the transaction commits; the service reads the outbox of its
// database (docs/postgres.md).
func (c *Client) InTransaction(query Querier) *Transaction { return &Transaction{query} }

// All parameters are texts, which every driver sends alike; the server converts them. A delay is milliseconds, because a
// `day` of PostgreSQL has 23 hours when clocks go forward.
const (
	textSQL  = "CAST($%d AS text)"
	jsonSQL  = "CAST(CAST($%d AS text) AS json)"
	afterSQL = "CAST(CAST($%d AS text) AS bigint) * interval '1 millisecond'"
	atSQL    = "CAST(CAST($%d AS text) AS timestamptz)"
)

var (
	scheduleSQL = statement("SELECT tickwheel.schedule(%s, %s, %s, key => %s, fields => %s)", textSQL, afterSQL, atSQL, textSQL, jsonSQL)
	putSQL      = statement("SELECT tickwheel.put(target => %s, after => %s, at => %s, key => %s, fields => %s)",
		textSQL, afterSQL, atSQL, textSQL, jsonSQL)
	touchSQL    = statement("SELECT tickwheel.touch(%s, %s, %s)", textSQL, afterSQL, atSQL)
	cancelSQL   = statement("SELECT tickwheel.cancel(%s)", textSQL)
	completeSQL = statement("SELECT tickwheel.complete(%s)", textSQL)
)

// statement numbers the parameters.
func statement(call string, casts ...string) string {
	numbered := make([]any, len(casts))
	for i, cast := range casts {
		numbered[i] = fmt.Sprintf(cast, i+1)
	}
	return fmt.Sprintf(call, numbered...)
}

// Create makes a timer; IdempotencyKey has no meaning here. If a live timer that differs has the Key, the row is rejected.
func (t *Transaction) Create(ctx context.Context, create Create) (int64, error) {
	return t.schedule(ctx, scheduleSQL, create)
}

// Put makes the timer with create.Key, or replaces it whole.
func (t *Transaction) Put(ctx context.Context, create Create) (int64, error) {
	return t.schedule(ctx, putSQL, create)
}

// Touch puts the timer with the key off; it never makes it earlier.
func (t *Transaction) Touch(ctx context.Context, key string, when When) (int64, error) {
	after, at, err := when.texts()
	if err != nil {
		return 0, err
	}
	return t.run(ctx, touchSQL, key, after, at)
}

// Cancel has no effect if the timer with the key is over. The row is rejected if its delivery has begun when it is read.
func (t *Transaction) Cancel(ctx context.Context, key string) (int64, error) {
	return t.run(ctx, cancelSQL, key)
}

// Complete cancels the timers that watch the event.
func (t *Transaction) Complete(ctx context.Context, event string) (int64, error) {
	return t.run(ctx, completeSQL, event)
}

func (t *Transaction) run(ctx context.Context, statement string, arguments ...any) (int64, error) {
	var row int64
	err := t.query(ctx, statement, arguments...).Scan(&row)
	return row, err
}

// schedule passes the time, the key and a single target as parameters, and all other fields as one JSON.
func (t *Transaction) schedule(ctx context.Context, statement string, create Create) (int64, error) {
	after, at, err := When{create.After, create.At}.texts()
	if err != nil {
		return 0, err
	}
	target, key := orNull(create.Target), orNull(create.Key)
	create.Target, create.Key, create.After, create.At = "", "", "", nil
	fields, err := encode(create)
	if err != nil {
		return 0, fmt.Errorf("tickwheel: %w", err)
	}
	return t.run(ctx, statement, target, after, at, key, string(fields))
}

// orNull is the text as a parameter; NULL if it is empty.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// texts are the parameters for the milliseconds and for the instant. It is rounded up, so that no timer is early.
func (w When) texts() (after, at any, err error) {
	if w.After != "" {
		count, err := w.After.milliseconds()
		if err != nil {
			return nil, nil, err
		}
		after = strconv.FormatInt(count, 10)
	}
	if w.At != nil {
		at = w.At.Add(time.Microsecond - 1).Truncate(time.Microsecond).UTC().Format(time.RFC3339Nano)
	}
	return after, at, nil
}

// Each unit once, the larger before the smaller.
var durationParts = regexp.MustCompile(`^(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$`)

// milliseconds fails for what the service would refuse.
func (d Duration) milliseconds() (int64, error) {
	parts := durationParts.FindStringSubmatch(string(d))
	if parts == nil {
		return 0, fmt.Errorf("tickwheel: %q is no duration: write whole numbers with units, as in \"90s\" or \"1h30m\"", string(d))
	}
	var sum int64
	for i, unit := range []int64{604800000, 86400000, 3600000, 60000, 1000, 1} {
		if parts[i+1] == "" {
			continue
		}
		value, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil || value > (math.MaxInt64-sum)/unit {
			return 0, fmt.Errorf("tickwheel: %q is too long", string(d))
		}
		sum += value * unit
	}
	return sum, nil
}
