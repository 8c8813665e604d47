// Package tickwheeltest tests schedules: it starts a daemon whose clock stands until it is moved, and a receiver that
// records.
//
//	func TestReminders(t *testing.T) {
//		tw := tickwheeltest.Start(t, "2027-03-01T00:00Z")
//		_, err := tw.Client.Create(context.Background(), tickwheel.Create{
//			Target: tw.URL("/remind"), Cron: "0 9 * * *", Timezone: "Europe/Berlin"})
//		...
//		tw.Advance("31d")
//		if len(tw.Delivered("/remind")) != 31 { ... }
//	}
//
// The daemon is the program that TICKWHEELD names, or tickwheeld in PATH. It ends with the test.
package tickwheeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	tickwheel "tickwheel.example/client"
)

const startMax = time.Minute

// Delivery is a webhook that arrived.
type Delivery struct {
	Path    string
	Due     time.Time // when it was due
	Attempt int
	Header  http.Header
	Body    []byte
	Status  int // what it was answered
}

// Advanced is what happened since the last advance.
type Advanced struct {
	Now              time.Time
	Fired, Delivered int
	Failed           int // attempts
}

// Virtual is a daemon with a virtual clock, and a receiver.
type Virtual struct {
	Client *tickwheel.Client
	t      testing.TB
	url    string
	hooks  *httptest.Server

	lock     sync.Mutex
	received []Delivery
	answer   func(path string) int
}

// Start starts a daemon whose clock stands at `start`, such as "2027-03-01T00:00Z"; `flags` are further flags of it. It
// ends the test if there is no daemon.
func Start(t testing.TB, start string, flags ...string) *Virtual {
	t.Helper()
	v, err := begin(t, start, flags)
	if err != nil {
		t.Fatal("tickwheeltest: ", err)
	}
	return v
}

func begin(t testing.TB, start string, flags []string) (*Virtual, error) {
	program := os.Getenv("TICKWHEELD")
	if program == "" {
		program = "tickwheeld"
	}
	folder := t.TempDir()
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	daemon := exec.Command(program, append([]string{"--clock", "virtual=" + start, "--listen-port", "0",
		"--data-folder", filepath.Join(folder, "data")}, flags...)...)
	daemon.Stderr = log
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TICKWHEEL_") { // which would be settings of the daemon
			daemon.Env = append(daemon.Env, variable)
		}
	}
	if err := daemon.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { daemon.Wait(); close(ended) }()
	t.Cleanup(func() { daemon.Process.Kill(); <-ended })
	v := &Virtual{t: t, answer: func(string) int { return http.StatusOK }}
	if v.url, err = await(log.Name(), ended); err != nil {
		return nil, err
	}
	v.hooks = httptest.NewServer(http.HandlerFunc(v.take))
	t.Cleanup(v.hooks.Close)
	v.Client, err = tickwheel.New(v.url)
	return v, err
}

// await returns the URL of the daemon once it is ready.
func await(log string, ended chan struct{}) (string, error) {
	started := regexp.MustCompile(`event=started listen=(\S+)`)
	for until := time.Now().Add(startMax); time.Now().Before(until); {
		text, err := os.ReadFile(log)
		if err != nil {
			return "", err
		}
		if found := started.FindSubmatch(text); found != nil {
			url := "http://" + string(found[1])
			if response, err := http.Get(url + "/readyz"); err == nil {
				response.Body.Close()
				if response.StatusCode == http.StatusOK {
					return url, nil
				}
			}
		}
		select {
		case <-ended:
			text, _ = os.ReadFile(log)
			return "", fmt.Errorf("tickwheeld ended: %s", text)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return "", fmt.Errorf("tickwheeld did not start within %s", startMax)
}

func (v *Virtual) take(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	due, _ := time.Parse(time.RFC3339, r.Header.Get("tickwheel-due"))
	attempt, _ := strconv.Atoi(r.Header.Get("tickwheel-attempt"))
	v.lock.Lock()
	answer := v.answer
	v.lock.Unlock()
	status := answer(r.URL.Path)
	v.lock.Lock()
	v.received = append(v.received, Delivery{r.URL.Path, due, attempt, r.Header, body, status})
	v.lock.Unlock()
	w.WriteHeader(status)
}

// URL is the target of webhooks that are recorded.
func (v *Virtual) URL(path string) string { return v.hooks.URL + path }

// Answer sets the status of the answer to webhooks by their path; it is 200 at first.
func (v *Virtual) Answer(answer func(path string) int) {
	v.lock.Lock()
	defer v.lock.Unlock()
	v.answer = answer
}

type clock struct {
	Now                      time.Time
	To, Detail               string
	Done                     bool
	Fired, Delivered, Failed int
}

func (v *Virtual) call(method, path string, body any) (answer clock, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer, err
	}
	request, err := http.NewRequest(method, v.url+path, bytes.NewReader(text))
	if err != nil {
		return answer, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if err = json.NewDecoder(response.Body).Decode(&answer); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", answer.Detail)
	}
	return answer, err
}

// Now is the time of timers.
func (v *Virtual) Now() time.Time {
	v.t.Helper()
	answer, err := v.call(http.MethodGet, "/v1/clock", nil)
	if err != nil {
		v.t.Fatal("tickwheeltest: ", err)
	}
	return answer.Now
}

func (v *Virtual) move(name, value string) (sum Advanced, err error) {
	for {
		answer, err := v.call(http.MethodPost, "/v1/clock/advance", map[string]string{name: value})
		if err != nil {
			return sum, err
		}
		sum = Advanced{answer.Now, sum.Fired + answer.Fired, sum.Delivered + answer.Delivered, sum.Failed + answer.Failed}
		if answer.Done {
			return sum, nil
		}
		name, value = "to", answer.To
	}
}

// Advance lets time pass, a duration such as "3d", and returns when everything due has been done.
func (v *Virtual) Advance(by string) Advanced {
	v.t.Helper()
	advanced, err := v.move("by", by)
	if err != nil {
		v.t.Fatal("tickwheeltest: ", err)
	}
	return advanced
}

// AdvanceTo is Advance to a time, or to "next": the next firing or retry.
func (v *Virtual) AdvanceTo(to string) Advanced {
	v.t.Helper()
	advanced, err := v.move("to", to)
	if err != nil {
		v.t.Fatal("tickwheeltest: ", err)
	}
	return advanced
}

// Received returns every webhook of this path that came, in order.
func (v *Virtual) Received(path string) (found []Delivery) {
	v.lock.Lock()
	defer v.lock.Unlock()
	for _, one := range v.received {
		if one.Path == path {
			found = append(found, one)
		}
	}
	return found
}

// Delivered returns those of Received that were answered with success.
func (v *Virtual) Delivered(path string) (found []Delivery) {
	for _, one := range v.Received(path) {
		if one.Status >= 200 && one.Status < 300 {
			found = append(found, one)
		}
	}
	return found
}
