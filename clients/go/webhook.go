package tickwheel

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	webhookBodyMax   = 2 << 20 // the service sends at most 1 MiB
	webhookTolerance = 5 * time.Minute
)

// Verifier checks the signatures of webhooks (Standard Webhooks).
type Verifier struct{ key []byte }

// NewVerifier takes the secret of the service, "whsec_" and base64.
func NewVerifier(secret string) (*Verifier, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, errors.New("tickwheel: the secret is not whsec_ and base64")
	}
	return &Verifier{key}, nil
}

// IsValid tells whether the body, as received, was signed within the last five minutes.
func (v *Verifier) IsValid(header http.Header, body []byte) bool {
	id, sent := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseUint(sent, 10, 40)
	if id == "" || err != nil {
		return false
	}
	if age := time.Since(time.Unix(int64(seconds), 0)); age > webhookTolerance || age < -webhookTolerance {
		return false
	}
	mac := hmac.New(sha256.New, v.key)
	mac.Write([]byte(id + "." + sent + "."))
	mac.Write(body)
	wanted := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	valid := false
	for _, signature := range strings.Split(header.Get("webhook-signature"), " ") {
		valid = hmac.Equal(wanted, []byte(signature)) || valid
	}
	return valid
}

// Handler calls next for webhooks with a valid signature only, with their body to read; it answers
// others with 401, and those with a body that no webhook has with 413.
func (v *Verifier) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhookBodyMax))
		switch {
		case err != nil:
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		case !v.IsValid(r.Header, body):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		}
	})
}
