package tickwheel

import (
	"bytes"
	"crypto/ed25519"
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
	webhookBodyMax       = 2 << 20 // the service sends at most 1 MiB
	webhookTolerance     = 5 * time.Minute
	webhookSignaturesMax = 8 // by private keys; the service sends at most 2
)

// Verifier checks the signatures of webhooks (Standard Webhooks).
type Verifier struct {
	key    []byte            // of a secret
	public ed25519.PublicKey // in place of key
}

// NewVerifier takes the secret of the service, "whsec_" and base64; or, of one that signs by a private key, the public
// key, "whpk_" and base64.
func NewVerifier(secret string) (*Verifier, error) {
	if strings.HasPrefix(secret, "whpk_") {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whpk_"))
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, errors.New("tickwheel: the public key is not whpk_ and the base64 of 32 bytes")
		}
		return &Verifier{public: key}, nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, errors.New("tickwheel: the secret is not whsec_ and base64")
	}
	return &Verifier{key: key}, nil
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
	start, signatures := id+"."+sent+".", strings.Split(header.Get("webhook-signature"), " ")
	if v.public != nil {
		return v.isSignedByKey(append([]byte(start), body...), signatures)
	}
	mac := hmac.New(sha256.New, v.key)
	mac.Write([]byte(start))
	mac.Write(body)
	wanted := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	valid := false
	for _, signature := range signatures {
		valid = hmac.Equal(wanted, []byte(signature)) || valid
	}
	return valid
}

func (v *Verifier) isSignedByKey(text []byte, signatures []string) bool {
	tried := 0
	for _, signature := range signatures {
		if !strings.HasPrefix(signature, "v1a,") || tried == webhookSignaturesMax {
			continue
		}
		tried++
		bytes, err := base64.StdEncoding.DecodeString(signature[len("v1a,"):])
		if err == nil && ed25519.Verify(v.public, text, bytes) {
			return true
		}
	}
	return false
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
