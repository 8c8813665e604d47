// The calls that clients/contract/outbox.py expects, in transactions of pgx and of database/sql with two drivers. It is a
// program of a module of its own, because the client requires no driver.
package main

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"tickwheel.example/client"
)

var (
	ctx           = context.Background()
	errRolledBack = errors.New("rolled back")
	due           = time.Date(2099, 1, 31, 9, 0, 0, 1, time.FixedZone("", 7200)) // rounded up: never early
	text          = os.Getenv("OUTBOX_TEXT")
)

func must(row int64, err error) {
	if err != nil || row < 1 {
		log.Panic(row, err)
	}
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func all(outbox *tickwheel.Transaction, name string) {
	must(outbox.Create(ctx, tickwheel.Create{Target: "queue:a", After: "1h30m", Key: name,
		Payload: map[string]any{"text": text, "n": 1.5}, Labels: map[string]string{"team": "it's"},
		Retry: &tickwheel.Retry{Base: "2s"}, Watch: []string{name + "-paid"}, IdempotencyKey: "unused"}))
	must(outbox.Put(ctx, tickwheel.Create{Target: "queue:b", At: tickwheel.At(due), Key: name}))
	must(outbox.Touch(ctx, name, tickwheel.When{After: tickwheel.After(30 * 24 * time.Hour)}))
	must(outbox.Create(ctx, tickwheel.Create{Targets: []string{"queue:c", "queue:d"}, Every: "1d", Body: []byte{0, 255},
		ContentType: "application/x-two"}))
	must(outbox.Complete(ctx, name+"-paid"))
	must(outbox.Cancel(ctx, name))
}

// both runs the calls in a transaction that commits, and one in a transaction that rolls back. `begin` runs a function in a
// transaction, and commits unless it fails.
func both(timers *tickwheel.Client, name string, begin func(run func(query tickwheel.Querier) error) error) {
	check(begin(func(query tickwheel.Querier) error {
		var none int64
		check(query(ctx, "WITH made AS (INSERT INTO orders VALUES (1, 'reserved') RETURNING id) SELECT id FROM made").Scan(&none))
		all(timers.InTransaction(query), name)
		return nil
	}))
	err := begin(func(query tickwheel.Querier) error {
		must(timers.InTransaction(query).Create(ctx, tickwheel.Create{Target: "queue:a", After: "1h", Key: name + "-not"}))
		return errRolledBack
	})
	if !errors.Is(err, errRolledBack) {
		log.Panic(err)
	}
}

func withSQL(driver string) func(func(tickwheel.Querier) error) error {
	base, err := sql.Open(driver, os.Getenv("DATABASE_URL")+"?sslmode=disable")
	check(err)
	return func(run func(tickwheel.Querier) error) error {
		tx, err := base.BeginTx(ctx, nil)
		check(err)
		if err := run(tickwheel.SQL(tx)); err != nil {
			check(tx.Rollback())
			return err
		}
		return tx.Commit()
	}
}

func refused(timers *tickwheel.Client, tx pgx.Tx) {
	outbox := timers.InTransaction(tickwheel.Pgx(tx))
	for _, after := range []tickwheel.Duration{"soon", "1m1h", "30", "-1h", "99999999999999999999w", "9000000000000w9000000000000w"} {
		if row, err := outbox.Create(ctx, tickwheel.Create{Target: "queue:a", After: after}); err == nil {
			log.Panic(after, row)
		}
	}
	if _, err := outbox.Create(ctx, tickwheel.Create{Target: "queue:a", After: "1h", Payload: func() {}}); err == nil {
		log.Panic("a function is no payload")
	}
	must(outbox.Cancel(ctx, "still-a-transaction")) // no statement has failed
	if _, err := outbox.Touch(ctx, "k", tickwheel.When{}); err == nil {
		log.Panic("a touch without a time") // said by the database
	}
}

func main() {
	timers, err := tickwheel.New("http://127.0.0.1:1") // nothing is asked of it
	check(err)
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	begin := func(options pgx.TxOptions) func(func(tickwheel.Querier) error) error {
		return func(run func(tickwheel.Querier) error) error {
			return pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error { return run(tickwheel.Pgx(tx)) })
		}
	}
	both(timers, "pgx", begin(pgx.TxOptions{}))
	both(timers, "pgx-stdlib", withSQL("pgx"))
	both(timers, "pq", withSQL("postgres"))
	tx, err := pool.Begin(ctx)
	check(err)
	refused(timers, tx)
	check(tx.Rollback(ctx))
}
