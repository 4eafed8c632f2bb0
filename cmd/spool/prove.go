package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"spool/internal/natsio"
	"spool/internal/proof"
	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
	"spool/pkg/threads"
)

type proveCmd struct {
	Thread string `arg:"" optional:"" name:"session[/thread]" help:"One thread, or all of a session."`
	Output string `type:"path" short:"o" placeholder:"FILE" help:"File to write."`
	Key    string `type:"path" placeholder:"FILE" help:"File of the signing key, which nobody else may read."`
	NewKey string `type:"path" placeholder:"FILE" help:"Make a signing key in FILE, and its public key in FILE.pub, instead."`
	Name   string `default:"spool" help:"With --new-key: what the key is called in what it signs."`
	Force  bool   `short:"f" help:"Replace a file: do not mind that it holds something else."`
	JSON   bool   `help:"What was proved as one line of JSON."`
}

func (c *proveCmd) Help() string {
	return "The file has every entry of the threads as it is stored, and what was cut out of them by digest alone. " +
		"Whoever has it and the public key runs spool verify, which needs no server. " +
		"The signature says who signed, not when, nor that nothing was left out."
}

func (c *proveCmd) Run(a *app) error {
	if c.NewKey != "" {
		if c.Thread != "" || c.Output != "" {
			return service.UsageError{Err: errors.New("--new-key makes a key, and proves nothing")}
		}
		return c.newKey(a)
	}
	if c.Thread == "" || c.Output == "" || c.Key == "" {
		return service.UsageError{Err: errors.New("name a session or a thread, -o FILE and --key FILE; or --new-key FILE")}
	}
	signer, err := signingKey(c.Key)
	if err != nil {
		return err
	}
	if sameFile(c.Output, c.Key) {
		return service.UsageError{Err: fmt.Errorf("-o: %s is the signing key", c.Output)}
	}
	a.ctx = natsio.Patient(a.ctx)
	cl, err := a.client()
	if err != nil {
		return err
	}
	session, names, heads, err := c.heads(a, cl)
	if err != nil {
		return err
	}
	bars := newBars(a.err)
	defer bars.end()
	var rep *proof.Report
	err = writeFile(c.Output, c.Force, func(w io.Writer) error {
		scratch, err := os.CreateTemp(filepath.Dir(c.Output), ".spool-prove-*")
		if err != nil {
			return err
		}
		defer func() { _ = errors.Join(scratch.Close(), os.Remove(scratch.Name())) }()
		_ = os.Remove(scratch.Name()) // where the system can, so that a crash leaves nothing of it
		rep, err = proof.Write(a.ctx, w, cl.Reader(), session, names, heads, signer, scratch, bars.set)
		return err
	})
	if bars.end(); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.out).Encode(rep)
	}
	return writeProof(a.report(), rep)
}

// heads are those that are to be proved, with what was published before, as far as persisters come to it.
func (c *proveCmd) heads(a *app, cl *client.Client) (session string, names []string, heads []threads.Head, err error) {
	chosen := threadVerifyCmd{Thread: c.Thread}
	list, err := chosen.threads(a, cl)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s has no thread", c.Thread)
	}
	if err != nil {
		return "", nil, nil, err
	}
	behind := false
	for _, t := range list {
		if t.Unreadable {
			return "", nil, nil, fmt.Errorf("%s: %s; spool fsck says what else is wrong", t.Thread, t.Head.Failure)
		}
		if t.Ended == "" && !behind {
			err := cl.Thread(t.Thread).Settled(a.ctx)
			if behind = errors.Is(err, client.ErrBehind); behind {
				fmt.Fprintf(a.err, "spool: %s: %v\n", t.Thread, err)
			} else if err != nil {
				return "", nil, nil, err
			}
			if t.Head, err = cl.Thread(t.Thread).Head(a.ctx); err != nil {
				return "", nil, nil, mendable(err, t.Thread)
			}
		}
		session, names, heads = t.Session, append(names, t.Name), append(heads, t.Head)
	}
	return session, names, heads, nil
}

// newKey makes a key. It never replaces one: what was signed with it could not be told from what another one signs.
func (c *proveCmd) newKey(a *app) error {
	private, public, err := note.GenerateKey(rand.Reader, c.Name)
	if err == nil {
		_, err = note.NewVerifier(public)
	}
	if err != nil {
		return service.UsageError{Err: fmt.Errorf("--name %q: %w; a name has no space and no plus sign", c.Name, err)}
	}
	if err := createFile(c.NewKey, private, 0o600); err != nil {
		return err
	}
	if err := createFile(c.NewKey+".pub", public, 0o644); err != nil {
		return errors.Join(err, os.Remove(c.NewKey))
	}
	if c.JSON {
		return json.NewEncoder(a.out).Encode(map[string]string{"key": c.NewKey, "public_key": public})
	}
	fmt.Fprintf(a.err, "the signing key is in %[1]s; who verifies needs %[1]s.pub, from you, not from who brings the proof\n",
		c.NewKey)
	_, err = fmt.Fprintln(a.out, public)
	return err
}

func createFile(name, line string, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil { // else a part of a key stands where one is to be
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// signingKey reads a key that nobody else may read.
func signingKey(name string) (note.Signer, error) {
	line, mode, err := keyLine(name)
	if err != nil {
		return nil, fmt.Errorf("--key: %w; spool prove --new-key %s makes one", err, name)
	}
	if mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("--key %[1]s: others may read or change it (mode %04[2]o): chmod 600 %[1]s, "+
			"and make another one if somebody did", name, mode)
	}
	signer, err := note.NewSigner(line)
	if err != nil { // it may say what is in the file
		return nil, fmt.Errorf("--key %s is no signing key: spool prove --new-key makes one", name)
	}
	return signer, nil
}

func sameFile(a, b string) bool {
	one, errA := os.Stat(a)
	other, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(one, other)
}

// keyLine is the line of a small file, and its permissions.
func keyLine(name string) (string, os.FileMode, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return strings.TrimSpace(string(b)), info.Mode().Perm(), err
}

type verifyCmd struct {
	File    string `arg:"" help:"The file of spool prove."`
	Key     string `required:"" placeholder:"KEY" help:"Public key of who signed it, or a file that has it."`
	Earlier string `type:"path" placeholder:"FILE" help:"An earlier proof of the session: its threads must be there, and have all that they had then."`
	JSON    bool   `help:"One JSON object."`
}

func (c *verifyCmd) Help() string {
	return "Asks no server. Exits with 1 when anything in the file is not what was signed, or does not hold together, " +
		"and says what and where."
}

func (c *verifyCmd) Run(a *app) error {
	key, err := note.NewVerifier(c.Key)
	if err != nil {
		line, _, e := keyLine(c.Key)
		if e != nil {
			return service.UsageError{Err: fmt.Errorf("--key: neither a public key nor a file that has one: %w", e)}
		}
		if key, err = note.NewVerifier(line); err != nil {
			err = fmt.Errorf("--key %s has no public key: spool prove --new-key writes FILE.pub", c.Key)
			return service.UsageError{Err: err}
		}
	}
	file := c.File
	var rep *proof.Report
	if c.Earlier != "" {
		file = c.Earlier
		rep, err = verify(a, file, nil, key)
	}
	if err == nil && (rep == nil || len(rep.Findings) == 0) {
		file = c.File
		rep, err = verify(a, file, rep, key)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(a.out).Encode(struct {
			OK bool `json:"ok"`
			*proof.Report
		}{len(rep.Findings) == 0, rep})
	} else {
		err = writeProof(a.report(), rep)
	}
	if err == nil && len(rep.Findings) > 0 {
		err = text.Errorf("%s does not hold: %d findings", file, len(rep.Findings))
	}
	return err
}

// verify checks a file, and whether it goes on where an earlier one was, unless that is nil.
func verify(a *app, file string, earlier *proof.Report, key note.Verifier) (*proof.Report, error) {
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() { // to open a pipe would wait for who writes to it
		err = fmt.Errorf("%s is no file", file)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	bars := newBars(a.err)
	defer bars.end()
	return proof.Verify(a.ctx, f, info.Size(), key, earlier, bars.set)
}

// writeProof says what a proof proves, or what is wrong with it and nothing else.
func writeProof(t *text.Table, rep *proof.Report) error {
	for _, f := range rep.Findings {
		fmt.Fprintln(t, f)
	}
	if len(rep.Findings) == 0 {
		for _, one := range rep.Threads {
			text.Fprintf(t, "%s/%s\t%d entries, %d items\t%s\n", rep.Session, one.Name, one.Entries, one.Items, one.Head)
		}
		text.Fprintf(t, "signed by %s\t%d nodes, %s\t%d blobs by digest alone\n",
			rep.SignedBy, rep.Nodes, text.Bytes(rep.Bytes), rep.Blobs)
	}
	return t.Flush()
}
