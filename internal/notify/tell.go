package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"spool/internal/webhook"
)

const commandWait = time.Minute // for a command to end

// Webhook is a Teller of an address, as Standard Webhooks has them: a POST with webhook-id, webhook-timestamp and, with a secret,
// webhook-signature. Any 2xx takes the note. Private addresses need private (webhook.Client).
func Webhook(address string, secret []byte, private bool) (Teller, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no http:// or https:// address", address)
	}
	if !private && webhook.IsPrivate(u.Hostname()) {
		return nil, fmt.Errorf("%s is no public address: --private allows it", u.Hostname())
	}
	cl := webhook.Client(private, "--private")
	return func(ctx context.Context, n Note, body []byte) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
		if err != nil {
			return err
		}
		at := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("User-Agent", "spool")
		req.Header.Set("Webhook-Id", n.ID)
		req.Header.Set("Webhook-Timestamp", at)
		if len(secret) > 0 {
			req.Header.Set("Webhook-Signature", "v1,"+sign(secret, n.ID, at, body))
		}
		res, err := cl.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(res.Body, 200)) // the status decides
		if res.StatusCode/100 == 2 {
			return nil
		}
		return fmt.Errorf("%s: %q", res.Status, said) // also a 404: a target that is being set up has it, and takes the note later
	}, nil
}

func sign(secret []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Secret reads the key of signatures from a text: whsec_ and base64, as Standard Webhooks writes them, of 24 to 64 bytes.
func Secret(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), "whsec_"))
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New(`a secret is "whsec_" and the base64 of 24 to 64 bytes: echo "whsec_$(head -c 32 /dev/urandom | base64)"`)
	}
	return key, nil
}

// Command is a Teller of a command of the shell: the note is its standard input, and in SPOOL_TYPE, SPOOL_SESSION, SPOOL_THREAD,
// SPOOL_PROMPT, SPOOL_RUN, SPOOL_STATE and SPOOL_TEXT. Exit code 0 takes it.
func Command(line string, stdout, stderr io.Writer) Teller {
	return func(ctx context.Context, n Note, body []byte) error {
		ctx, stop := context.WithTimeout(ctx, commandWait)
		defer stop()
		cmd := exec.CommandContext(ctx, "sh", "-c", line)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(body, '\n')), stdout, stderr
		cmd.WaitDelay = time.Second // what it started may hold its output open
		cmd.Env = append(os.Environ(), "SPOOL_TYPE="+n.Type, "SPOOL_SESSION="+n.Data.Session, "SPOOL_THREAD="+n.Data.Thread,
			"SPOOL_PROMPT="+clean(n.Data.Prompt), "SPOOL_RUN="+n.Data.Run, "SPOOL_STATE="+n.Data.State, "SPOOL_TEXT="+clean(n.Data.Text))
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		return nil
	}
}

// clean leaves out what no variable can hold.
func clean(s string) string { return strings.ReplaceAll(s, "\x00", "") }
