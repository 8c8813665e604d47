package tickwheeltest

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	tickwheel "tickwheel.example/client"
)

// 9:00 in Berlin is 8:00 UTC before 28 March, and 7:00 from then on.
func TestAMonthOfDailyRemindersOverADSTChange(t *testing.T) {
	began := time.Now()
	tw := Start(t, "2027-03-01T00:00Z")
	if _, err := tw.Client.Create(context.Background(), tickwheel.Create{
		Target: tw.URL("/remind"), Cron: "0 9 * * *", Timezone: "Europe/Berlin"}); err != nil {
		t.Fatal(err)
	}
	advanced := tw.Advance("31d")
	t.Logf("a month and the start of the daemon took %s", time.Since(began))
	wanted := Advanced{time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC), 31, 31, 0}
	if advanced != wanted || !tw.Now().Equal(wanted.Now) {
		t.Fatal(advanced, tw.Now())
	}
	delivered := tw.Delivered("/remind")
	if len(delivered) != 31 || len(tw.Delivered("/other")) != 0 {
		t.Fatal(delivered)
	}
	for i, one := range delivered {
		hour := 8
		if i+1 >= 28 {
			hour = 7
		}
		if !one.Due.Equal(time.Date(2027, 3, i+1, hour, 0, 0, 0, time.UTC)) {
			t.Error(i, one.Due)
		}
	}
}

func TestRetriesOfDays(t *testing.T) {
	tw := Start(t, "2027-03-01T00:00Z")
	tw.Answer(func(path string) int {
		if len(tw.Received(path)) < 2 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	if _, err := tw.Client.Create(context.Background(), tickwheel.Create{Target: tw.URL("/a"), After: "1h",
		Retry: &tickwheel.Retry{Base: "1d", Cap: "1d"}}); err != nil {
		t.Fatal(err)
	}
	if first := tw.AdvanceTo("next"); first.Failed != 1 || !first.Now.Equal(time.Date(2027, 3, 1, 1, 0, 0, 0, time.UTC)) {
		t.Fatal(first)
	}
	if rest := tw.AdvanceTo("2027-03-09T00:00:00Z"); rest.Failed != 1 || rest.Delivered != 1 {
		t.Fatal(rest)
	}
	if len(tw.Received("/a")) != 3 || len(tw.Delivered("/a")) != 1 || tw.Delivered("/a")[0].Attempt != 3 {
		t.Fatal(tw.Received("/a"))
	}
}

func TestWhatIsRefused(t *testing.T) {
	tw := Start(t, "2027-03-01T00:00Z")
	if _, err := tw.move("to", "2020-01-01T00:00:00Z"); err == nil || !strings.Contains(err.Error(), "does not go back") {
		t.Fatal(err)
	}
	if _, err := begin(t, "2027-13-01T00:00Z", nil); err == nil || !strings.Contains(err.Error(), "no month 13") {
		t.Fatal(err)
	}
}
