// The steps of generators_test.py with the client that oapi-codegen makes.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	tickwheel "tickwheel.test/client"
)

func check(holds bool, what any) {
	if !holds {
		log.Fatalf("%+v", what)
	}
}

func of[T any](value T) *T { return &value }

func main() {
	url, token, queue := os.Args[1], os.Args[2], os.Args[3]
	ctx := context.Background()
	client, err := tickwheel.NewClientWithResponses(url, tickwheel.WithRequestEditorFn(
		func(_ context.Context, request *http.Request) error {
			request.Header.Set("Authorization", "Bearer "+token)
			return nil
		}))
	check(err == nil, err)

	made, err := client.CreateTimerWithResponse(ctx, nil, tickwheel.TimerCreate{
		After: of("1h"), Target: of("queue:" + queue), Key: &queue, Payload: map[string]int{"order": 42},
		Labels: &map[string]string{"queue": queue}, Retry: &tickwheel.RetryPolicy{MaxAttempts: of(3)}})
	check(err == nil && made.JSON201 != nil, made)
	timer := made.JSON201
	check(timer.State == "scheduled" && timer.Retry.MaxAttempts == 3, timer)

	old := &tickwheel.PatchTimerParams{IfMatch: of(`"1"`)}
	changed, err := client.PatchTimerWithResponse(ctx, timer.Id, old, tickwheel.TimerPatch{After: of("2h")})
	check(err == nil && changed.JSON200 != nil, changed)
	check(changed.JSON200.Version == 2 && changed.JSON200.Due.After(timer.Due), changed.JSON200)
	late, err := client.PatchTimerWithResponse(ctx, timer.Id, old, tickwheel.TimerPatch{After: of("2h")})
	check(err == nil && late.ApplicationproblemJSON412.Type == "/problems/version-mismatch", late)

	page, err := client.ListTimersWithResponse(ctx, &tickwheel.ListTimersParams{
		Label: &[]string{"queue:" + queue}, Limit: of(10)})
	check(err == nil && len(page.JSON200.Timers) == 1 && page.JSON200.Next == nil, page)

	cancelled, err := client.DeleteTimerWithResponse(ctx, timer.Id, nil)
	check(err == nil && cancelled.JSON200.State == "cancelled", cancelled)
	gone, err := client.GetTimerWithResponse(ctx, timer.Id)
	check(err == nil && gone.ApplicationproblemJSON410.Timer.State == "cancelled", gone)

	_, err = client.CreateTimerWithResponse(ctx, nil, tickwheel.TimerCreate{
		At: of(time.Now()), Target: of("queue:" + queue), Payload: map[string]int{"order": 43}})
	check(err == nil, err)
	leased, err := client.LeaseItemsWithResponse(ctx, queue, tickwheel.QueueLease{Wait: of("10s"), Lease: of("1m")})
	check(err == nil && len(leased.JSON200.Items) == 1, leased)
	payload := leased.JSON200.Items[0].Payload.(map[string]any)
	check(payload["order"] == 43.0, payload)
	done, err := client.AckItemsWithResponse(ctx, queue,
		tickwheel.QueueAck{Receipts: []string{leased.JSON200.Items[0].Receipt}})
	check(err == nil && done.JSON200.Ok == 1 && done.JSON200.Results[0] == "ok", done)
}
