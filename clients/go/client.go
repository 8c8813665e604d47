package tickwheel

import (
	"bytes"
	"context"
	crypto "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	version       = "0.2.0"
	jsonType      = "application/json"
	ndjsonType    = "application/x-ndjson"
	pauseMax      = 5 * time.Second
	retryAfterMax = 60 * time.Second
)

// Client sends the calls of the API.
type Client struct {
	url, token string
	http       *http.Client
	timeout    time.Duration
	retries    int
	pause      time.Duration
}

// Option is a setting of a Client.
type Option func(*Client)

// WithToken sets the token; the default is TICKWHEEL_TOKEN.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithTimeout sets the time of each try; the default is 30 seconds.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithRetries sets how often a request is sent again (5), and the longest first pause (200 ms).
func WithRetries(retries int, pause time.Duration) Option {
	return func(c *Client) { c.retries, c.pause = retries, pause }
}

// WithHTTPClient sets what sends the requests, for TLS and proxies. Its Timeout should be 0.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// New makes a client of the daemon at the URL; empty: TICKWHEEL_URL, or http://localhost:8463.
func New(base string, options ...Option) (*Client, error) {
	if base == "" {
		base = os.Getenv("TICKWHEEL_URL")
	}
	if base == "" {
		base = "http://localhost:8463"
	}
	parsed, err := url.Parse(base)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return nil, fmt.Errorf("tickwheel: %q is no http or https URL", base)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256
	c := &Client{url: strings.TrimRight(base, "/"), token: os.Getenv("TICKWHEEL_TOKEN"), timeout: 30 * time.Second,
		retries: 5, pause: 200 * time.Millisecond, http: &http.Client{Transport: transport}}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// call is a request, and how its answer is to be taken.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
	stream       io.Reader     // instead of body; such a call is not repeated
	wait         time.Duration // how long the server may take by intention
	isCancel     bool
	isOnce       bool // a repetition may have a second effect
	mayBeEarly   bool // it may come before the service has recorded what it is about
}

func newCall(method, path string) *call {
	return &call{method: method, path: path, header: http.Header{}}
}

func withJSON(method, path string, body any) (*call, error) {
	text, err := encode(body)
	if err != nil {
		return nil, fmt.Errorf("tickwheel: %w", err)
	}
	c := newCall(method, path)
	c.body = text
	c.header.Set("Content-Type", jsonType)
	return c, nil
}

// encode writes JSON as it is, without escapes for HTML.
func encode(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}

func (c *call) onlyVersion(version int64) *call {
	if version > 0 {
		c.header.Set("If-Match", `"`+strconv.FormatInt(version, 10)+`"`)
	}
	return c
}

func randomKey() string {
	var bytes [16]byte
	if _, err := crypto.Read(bytes[:]); err != nil {
		panic(err) // the system has no randomness: no name would be unique
	}
	return hex.EncodeToString(bytes[:])
}

type answer struct {
	status     int
	body       []byte
	retryAfter time.Duration
}

// open sends a request once; the caller closes the body of the answer.
func (c *Client) open(ctx context.Context, call *call) (*http.Response, error) {
	body := call.stream
	if body == nil && call.body != nil {
		body = bytes.NewReader(call.body)
	}
	address := c.url + call.path
	if len(call.query) > 0 {
		address += "?" + call.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, call.method, address, body)
	if err != nil {
		return nil, err
	}
	request.Header = call.header.Clone()
	request.Header.Set("User-Agent", "tickwheel-go/"+version)
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(request)
}

func readAnswer(response *http.Response) (*answer, error) {
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return &answer{response.StatusCode, text, time.Duration(seconds) * time.Second}, nil
}

func (c *Client) try(ctx context.Context, call *call) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+call.wait)
	defer cancel()
	response, err := c.open(ctx, call)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return readAnswer(response)
}

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// problemOf reads the problem of an answer; nil and no error for an answer with success.
func problemOf(a *answer) (*Problem, error) {
	if a.status < 400 {
		return nil, nil
	}
	problem := new(Problem)
	if err := json.Unmarshal(a.body, problem); err != nil || problem.Type == "" {
		return nil, fmt.Errorf("tickwheel: %w: status %d without a problem", ErrBadAnswer, a.status)
	}
	problem.shortenType()
	return problem, nil
}

// pauseAfter is the pause before the next try; false: there is none.
func (c *Client) pauseAfter(tried int, a *answer) (time.Duration, bool) {
	if tried > c.retries {
		return 0, false
	}
	most := c.pause << (tried - 1)
	if most > pauseMax || most <= 0 {
		most = pauseMax
	}
	pause := time.Duration(rand.Int63n(int64(most) + 1))
	if a == nil {
		return pause, true
	}
	if problem, err := problemOf(a); !isTriedAgain(a.status) || (err == nil && !problem.passes()) {
		return 0, false
	}
	return a.retryAfter + pause, a.retryAfter <= retryAfterMax
}

// send sends the call until there is an answer, and reads it into the result.
func (c *Client) send(ctx context.Context, call *call, result any) error {
	wasLost := false
	for tried := 1; ; tried++ {
		a, err := c.try(ctx, call)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause, again := c.pauseAfter(tried, a)
		if a != nil && a.status == 409 && call.mayBeEarly && tried <= c.retries {
			again = true
		}
		if again = again && call.stream == nil && !call.isOnce; !again {
			if err != nil {
				return fmt.Errorf("tickwheel: %w: %s %s: %v", ErrUnreachable, call.method, call.path, err)
			}
			return call.read(a, wasLost, result)
		}
		wasLost = wasLost || a == nil || (a.status != 429 && a.status != 503)
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// decode reads an answer with success: one JSON value, a line each, a text, or nothing.
func decode(text []byte, result any) error {
	if result == nil {
		return nil
	}
	if whole, ok := result.(*string); ok {
		*whole = string(text)
		return nil
	}
	if results, ok := result.(*lines); ok {
		return results.read(text)
	}
	return json.Unmarshal(text, result)
}

// read takes an answer. wasLost: an earlier try may have taken effect.
func (call *call) read(a *answer, wasLost bool, result any) error {
	problem, err := problemOf(a)
	if err != nil {
		return err
	}
	if problem == nil {
		if err := decode(a.body, result); err != nil {
			return fmt.Errorf("tickwheel: %w: %s %s: %v", ErrBadAnswer, call.method, call.path, err)
		}
		return nil
	}
	if wasLost && errors.Is(problem, ErrVersionMismatch) {
		return fmt.Errorf("tickwheel: %w: the answer to a conditional change was lost; read the timer",
			ErrUnknownOutcome)
	}
	// The try whose answer was lost has cancelled it.
	if timer, ok := result.(*Timer); ok && wasLost && call.isCancel && errors.Is(problem, ErrGone) &&
		problem.Timer != nil && problem.Timer.State == "cancelled" {
		*timer = *problem.Timer
		return nil
	}
	return problem
}
