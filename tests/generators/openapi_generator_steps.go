// The steps of generators_test.py with the client that openapi-generator makes for Go.
package main

import (
	"context"
	"log"
	"os"
	"time"

	tickwheel "tickwheel.test/client"
)

func check(holds bool, what any) {
	if !holds {
		log.Fatalf("%+v", what)
	}
}

func main() {
	url, token, queue := os.Args[1], os.Args[2], os.Args[3]
	settings := tickwheel.NewConfiguration()
	settings.Servers = tickwheel.ServerConfigurations{{URL: url}}
	client := tickwheel.NewAPIClient(settings)
	ctx := context.WithValue(context.Background(), tickwheel.ContextAccessToken, token)

	wanted := tickwheel.NewTimerCreate()
	wanted.SetTarget("queue:" + queue)
	wanted.SetAfter("1h")
	wanted.SetKey(queue)
	wanted.SetPayload(map[string]any{"order": 42})
	wanted.SetLabels(map[string]string{"queue": queue})
	retry := tickwheel.NewRetryPolicy()
	retry.SetMaxAttempts(3)
	wanted.SetRetry(*retry)
	made, _, err := client.TimersAPI.CreateTimer(ctx).TimerCreate(*wanted).Execute()
	check(err == nil, err)
	check(made.State == "scheduled" && made.Retry.MaxAttempts == 3, made)

	patch := tickwheel.NewTimerPatch()
	patch.SetAfter("2h")
	changed, _, err := client.TimersAPI.PatchTimer(ctx, made.Id).TimerPatch(*patch).IfMatch(`"1"`).Execute()
	check(err == nil && changed.Version == 2 && changed.Due.After(made.Due), err)
	_, answer, err := client.TimersAPI.PatchTimer(ctx, made.Id).TimerPatch(*patch).IfMatch(`"1"`).Execute()
	check(err != nil && answer.StatusCode == 412, answer)

	page, _, err := client.TimersAPI.ListTimers(ctx).Label([]string{"queue:" + queue}).Limit(10).Execute()
	check(err == nil, err)
	check(len(page.Timers) == 1 && page.Timers[0].Id == made.Id && page.Next.Get() == nil, page)

	cancelled, _, err := client.TimersAPI.DeleteTimer(ctx, made.Id).Execute()
	check(err == nil && cancelled.State == "cancelled", err)
	_, answer, err = client.TimersAPI.GetTimer(ctx, made.Id).Execute()
	check(err != nil && answer.StatusCode == 410, answer)

	now := tickwheel.NewTimerCreate()
	now.SetTarget("queue:" + queue)
	now.SetAt(time.Now())
	now.SetPayload(map[string]any{"order": 43})
	_, _, err = client.TimersAPI.CreateTimer(ctx).TimerCreate(*now).Execute()
	check(err == nil, err)
	lease := tickwheel.NewQueueLease()
	lease.SetWait("10s")
	lease.SetLease("1m")
	leased, _, err := client.QueuesAPI.LeaseItems(ctx, queue).QueueLease(*lease).Execute()
	check(err == nil && len(leased.Items) == 1, err)
	payload := leased.Items[0].Payload.(map[string]any)
	check(payload["order"] == 43.0, payload)
	ack := tickwheel.NewQueueAck([]string{leased.Items[0].Receipt})
	done, _, err := client.QueuesAPI.AckItems(ctx, queue).QueueAck(*ack).Execute()
	check(err == nil && done.Ok == 1 && done.Results[0] == "ok", err)
}
