package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spool/internal/mapped"
	"spool/internal/service"
	"spool/internal/shortid"
	"spool/internal/text"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

type artifactCmd struct {
	Ls      artifactLsCmd      `cmd:"" aliases:"list" help:"List artifacts, oldest first."`
	Get     artifactGetCmd     `cmd:"" help:"Write the bytes of an artifact."`
	Put     artifactPutCmd     `cmd:"" help:"Store a file, or what comes on standard input, as an artifact."`
	Number  artifactNumberCmd  `cmd:"" help:"Take the next number of a session for an artifact that is put later."`
	Agent   artifactAgentCmd   `cmd:"" help:"Take the id of the next agent of a session, for output that is put later."`
	Rm      artifactRmCmd      `cmd:"" help:"Remove artifacts."`
	Cleanup artifactCleanupCmd `cmd:"" help:"Remove artifacts by kind, age and size; without --apply only say which."`
}

type artifactLsCmd struct{ listArgs }

func (c *artifactLsCmd) Run(a *app) error {
	find := func(cl *client.Client) ([]artifacts.Record, error) {
		list, err := cl.Session(c.Session).Artifacts(a.ctx)
		slices.SortFunc(list, func(a, b artifacts.Record) int {
			return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
		})
		return list, err
	}
	return list(a, &c.listArgs, find, look[artifacts.Record]{
		json:   func(r artifacts.Record) any { return client.ArtifactJSON(r) },
		none:   "no artifacts",
		ids:    a.artifactIDs,
		header: "ARTIFACT\tSESSION\tSEQ\tSIZE\tTYPE\tNAME",
		row: func(r artifacts.Record) string {
			kind, _, _ := strings.Cut(r.MIME, ";")
			name := text.Printable(r.Filename)
			if r.Category != artifacts.Normal {
				name = fmt.Sprintf("(%s) %s", r.Category, name)
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", r.ID, r.Session, cmp.Or(string(r.Seq), "-"), sizeOf(r),
				cmp.Or(text.Printable(kind), "-"), name)
		},
	})
}

func sizeOf(r artifacts.Record) string {
	if r.Size == artifacts.UnknownSize {
		return "?"
	}
	return text.Bytes(r.Size)
}

type artifactGetCmd struct {
	ID     string `arg:"" name:"artifact" help:"The artifact's id, art_…; spool read finds one by its number."`
	Output string `type:"path" short:"o" placeholder:"FILE" help:"File to write (default: standard output)."`
	Force  bool   `short:"f" help:"Replace a file: do not mind that it holds something else."`
}

func (c *artifactGetCmd) Run(a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	r, err := a.artifact(cl, c.ID)
	if err != nil {
		return err
	}
	body, size, err := cl.Artifacts().Open(a.ctx, r)
	if err != nil {
		return err
	}
	defer body.Close()
	write := func(w io.Writer) error {
		_, err := io.Copy(w, body)
		return err
	}
	if c.Output == "" || c.Output == "-" {
		return write(a.out)
	}
	if err := writeFile(c.Output, c.Force, write); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%s of %s in %s\n", text.Bytes(size), r.ID, c.Output)
	return nil
}

// artifact finds the artifact whose id is name, or the only one whose id begins so.
func (a *app) artifact(cl *client.Client, name string) (artifacts.Record, error) {
	r, err := cl.Artifacts().Record(a.ctx, artifacts.ID(name))
	if !errors.Is(err, artifacts.ErrNotFound) || name == "" {
		return r, err
	}
	ids, e := a.artifactIDs(cl)
	if e != nil {
		return r, errors.Join(err, e)
	}
	id, e := shortid.Find("artifacts", ids, name)
	switch {
	case errors.Is(e, shortid.ErrNone):
		return r, fmt.Errorf("%w\nspool artifact ls lists the artifacts that there are", err)
	case e != nil:
		return r, fmt.Errorf("%w\n%w", err, e)
	}
	fmt.Fprintf(a.err, "spool: %s is the artifact %s\n", name, id)
	return cl.Artifacts().Record(a.ctx, artifacts.ID(id))
}

// artifactIDs are those of all sessions.
func (a *app) artifactIDs(cl *client.Client) ([]string, error) {
	all, err := cl.EverySession().Artifacts(a.ctx)
	ids := mapped.List(all, func(r artifacts.Record) string { return string(r.ID) })
	return ids, err
}

type artifactPutCmd struct {
	Session  string  `arg:"" help:"Session that it belongs to."`
	File     string  `arg:"" optional:"" default:"-" help:"File to store; - is standard input."`
	Tool     string  `placeholder:"NAME" help:"Tool that made it; it names the file NUMBER.NAME.log."`
	Filename string  `placeholder:"NAME" help:"Name to show and to download it by (default: the file's, or made of number and tool; an agent's output is always ID.md)."`
	Number   *uint64 `placeholder:"N" help:"Number that spool artifact number gave for it (default: the next)."`
	Agent    string  `placeholder:"ID" help:"It is the output of this agent, and is found as agent://ID."`
	ToolCall string  `placeholder:"ID" help:"Invocation that it is the result of."`
	MIME     string  `name:"mime" placeholder:"TYPE" help:"Media type (default: that of the name, or of the file's)."`
	Summary  string  `placeholder:"TEXT" help:"What is in it."`
	Category string  `default:"normal" enum:"normal,provider_raw,hook_log,traceback,debug" help:"What it is for (${enum}); cleanup takes all but normal ones."`
	Register bool    `help:"Register the file where it is, instead of storing its bytes."`
	Object   string  `placeholder:"NAME" help:"Register this object of the bucket spool_artifacts, instead of storing bytes."`
	JSON     bool    `help:"The artifact as one line of JSON, instead of its id."`
}

func (c *artifactPutCmd) Run(a *app) error {
	n := client.NewArtifact{Tool: c.Tool, Record: artifacts.Record{
		Session: c.Session, Filename: c.Filename, Agent: c.Agent, ToolCall: c.ToolCall, MIME: c.MIME, Summary: c.Summary,
		Category: artifacts.Category(c.Category)}}
	if c.Number != nil {
		n.Number = artifacts.Seq(strconv.FormatUint(*c.Number, 10))
	}
	if c.Agent != "" {
		n.Writer = artifacts.FromAgent
		if err := events.CheckAgent("agent", c.Agent); err != nil {
			return err
		}
	}
	if c.File != "-" && c.Object == "" {
		if c.Tool == "" && c.Agent == "" {
			n.Filename = cmp.Or(n.Filename, filepath.Base(c.File))
		}
		n.MIME = cmp.Or(n.MIME, mime.TypeByExtension(filepath.Ext(cmp.Or(c.Filename, c.File))))
	}
	if c.Register && c.File == "-" || (c.Register || c.Agent != "") && c.Object != "" || c.Register && c.Agent != "" {
		return service.UsageError{Err: errors.New("--register needs a file, and one of --register, --object and --agent can be given")}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	if n.Record.Session, err = a.changed(cl, c.Session); err != nil {
		return err
	}
	r, err := c.put(a, cl, n)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.out).Encode(client.ArtifactJSON(r))
	}
	_, err = fmt.Fprintln(a.out, r.ID)
	return err
}

func (c *artifactPutCmd) put(a *app, cl *client.Client, n client.NewArtifact) (artifacts.Record, error) {
	switch {
	case c.Register:
		return cl.Artifacts().RegisterFile(a.ctx, n, c.File)
	case c.Object != "":
		return cl.Artifacts().RegisterObject(a.ctx, n, c.Object)
	case c.File == "-":
		return cl.Artifacts().Put(a.ctx, n, a.stdin())
	}
	f, err := os.Open(c.File)
	if err != nil {
		return artifacts.Record{}, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return artifacts.Record{}, fmt.Errorf("%s is a directory: name a file, or give tar's output on standard input", c.File)
	}
	return cl.Artifacts().Put(a.ctx, n, f)
}

type artifactNumberCmd struct {
	Session string `arg:"" help:"The session."`
}

func (c *artifactNumberCmd) Run(a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	if c.Session, err = a.changed(cl, c.Session); err != nil {
		return err
	}
	n, _, err := cl.Session(c.Session).TakeNumber(a.ctx, "")
	if err == nil {
		_, err = fmt.Fprintln(a.out, n)
	}
	return err
}

type artifactAgentCmd struct {
	Session string `arg:"" help:"The session."`
	Name    string `arg:"" help:"What the agent is to be called: its id is INDEX-NAME."`
	Parent  string `placeholder:"ID" help:"Id of the agent that starts it: then the id is PARENT.INDEX-NAME."`
}

func (c *artifactAgentCmd) Help() string {
	return "The agent's output is stored with spool artifact put --agent ID, and read with spool read agent://ID."
}

func (c *artifactAgentCmd) Run(a *app) error {
	err := events.CheckToken("agent", c.Name)
	if c.Parent != "" {
		err = errors.Join(err, events.CheckAgent("parent", c.Parent))
	}
	if err != nil {
		return service.UsageError{Err: err}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	if c.Session, err = a.changed(cl, c.Session); err != nil {
		return err
	}
	id, err := cl.Session(c.Session).TakeAgentID(a.ctx, c.Parent, c.Name)
	if err == nil {
		_, err = fmt.Fprintln(a.out, id)
	}
	return err
}

type artifactRmCmd struct {
	IDs []string `arg:"" name:"artifact" help:"Ids of the artifacts to remove."`
	unasked
}

func (c *artifactRmCmd) Run(a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	if !c.Yes { // who is asked is told which they are
		for i, name := range c.IDs {
			r, err := a.artifact(cl, name)
			if err != nil {
				return err
			}
			c.IDs[i] = string(r.ID)
		}
	}
	if err := a.confirm(c.Yes, "remove for ever: "+strings.Join(c.IDs, ", ")); err != nil {
		return err
	}
	var errs []error
	for _, id := range c.IDs {
		err := cl.Artifacts().Delete(a.ctx, artifacts.ID(id))
		if err == nil {
			_, err = fmt.Fprintf(a.out, "removed artifact %s\n", id)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type artifactCleanupCmd struct {
	Session   string        `arg:"" optional:"" help:"Session to clean up."`
	All       bool          `name:"all-sessions" help:"Every session."`
	Normal    bool          `name:"include-all" help:"Normal artifacts too; without it only provider_raw, hook_log, traceback and debug."`
	OlderThan time.Duration `placeholder:"DURATION" help:"Only those that are older."`
	MaxBytes  *int64        `placeholder:"N" help:"Only those with more bytes."`
	Apply     bool          `help:"Remove them."`
	JSON      bool          `help:"The report as one JSON object."`
	unasked
}

func (c *artifactCleanupCmd) Run(a *app) error {
	if (c.Session == "") != c.All {
		return service.UsageError{Err: errors.New("name a session, or say --all-sessions")}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	if !c.All {
		if c.Session, err = a.removed(!c.Apply || !c.Yes)(cl, c.Session); err != nil {
			return err
		}
	}
	how := artifacts.Cleanup{Session: c.Session, EverySession: c.All, IncludeAll: c.Normal, MaxBytes: c.MaxBytes}
	if c.OlderThan > 0 {
		how.OlderThan = time.Now().Add(-c.OlderThan)
	}
	report, err := cl.Artifacts().Cleanup(a.ctx, how)
	if err != nil {
		return err
	}
	if c.Apply && len(report.Candidates) > 0 {
		if err := a.confirm(c.Yes, text.Sprintf("remove %d artifacts for ever", len(report.Candidates))); err != nil {
			return err
		}
	}
	if how.Apply = c.Apply; c.Apply {
		if report, err = cl.Artifacts().Cleanup(a.ctx, how); err != nil {
			return err
		}
	}
	return c.report(a, report)
}

func (c *artifactCleanupCmd) report(a *app, r artifacts.Report) error {
	var errs []error
	for _, f := range r.Failures {
		errs = append(errs, f.Err)
	}
	if c.JSON {
		return errors.Join(append(errs, json.NewEncoder(a.out).Encode(client.ReportJSON(r)))...)
	}
	t := text.NewTable(a.out)
	bytes := int64(0)
	for _, cand := range r.Candidates {
		bytes += max(cand.Record.Size, 0)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", cand.Record.ID, sizeOf(cand.Record), cand.Reason, text.Printable(cand.Record.Filename))
	}
	errs = append(errs, t.Flush())
	if r.DryRun {
		text.Fprintf(a.err, "%d artifacts of %s would be removed: say --apply\n", len(r.Candidates), text.Bytes(bytes))
	} else {
		fmt.Fprintf(a.err, "%d of %d artifacts were removed\n", len(r.Deleted), len(r.Candidates))
	}
	return errors.Join(errs...)
}
