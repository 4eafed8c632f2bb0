package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spool/internal/jsonscan"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/internal/tenants"
	"spool/internal/text"
)

// authCmd keeps a directory with who may do what:
//
//	auth.json             tenants and users, by their public keys
//	accounts.conf         the same for nats-server, made from it
//	<tenant>/<user>.nk    a user's seed: to be given to the user, and to nobody else
//	system.nk             of the server's own account
type authCmd struct {
	Init   authInitCmd `cmd:"" help:"Begin a directory of tenants."`
	Tenant struct {
		Add authTenantCmd    `cmd:"" help:"Add a tenant, and its first user, admin."`
		Set authTenantSetCmd `cmd:"" help:"Change what a tenant may take of the disk."`
	} `cmd:"" help:"Tenants."`
	User struct {
		Add authUserCmd   `cmd:"" help:"Add a user with a role: admin, persister, ingest, gc, reader, agent."`
		Rm  authRemoveCmd `cmd:"" aliases:"del,delete" help:"Remove a user: its key opens nothing once the server has read accounts.conf again."`
	} `cmd:"" help:"Users of tenants."`
	Ls  authLsCmd  `cmd:"" aliases:"list" help:"List tenants and users."`
	Env authEnvCmd `cmd:"" help:"Write the environment that makes a program a user."`
}

// adminUser is the user that every tenant has.
const adminUser = "admin"

// authDir is a directory of tenants that was read.
type authDir struct {
	path string
	tenants.Directory
}

func (d *authDir) conf() string                    { return filepath.Join(d.path, "accounts.conf") }
func (d *authDir) state() string                   { return filepath.Join(d.path, "auth.json") }
func (d *authDir) seed(tenant, user string) string { return filepath.Join(d.path, tenant, user+".nk") }
func (d *authDir) only(name string) (*tenants.Tenant, error) {
	if name != "" || len(d.Tenants) == 1 {
		if name == "" {
			name = d.Tenants[0].Name
		}
		return d.Tenant(name)
	}
	return nil, service.UsageError{Err: text.Errorf("%s has %d tenants: name one with --tenant", d.path, len(d.Tenants))}
}

func openAuth(path string) (*authDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &authDir{path: path}
	text, err := os.ReadFile(d.state())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, service.UsageError{Err: fmt.Errorf("%s is no directory of tenants: begin one with spool auth init %s", path, path)}
	}
	if err == nil {
		err = jsonscan.Decode(text, &d.Directory)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.state(), err)
	}
	if d.Version != tenants.Version {
		return nil, fmt.Errorf("%s has version %d; this program reads version %d", d.state(), d.Version, tenants.Version)
	}
	return d, nil
}

// save writes what is known, then what the server reads. A crash between them leaves a server's file without the change; the
// next change writes both.
func (d *authDir) save() error {
	text, err := json.MarshalIndent(d.Directory, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(d.state(), append(text, '\n')); err != nil {
		return err
	}
	return replaceFile(d.conf(), d.Conf())
}

func replaceFile(path string, b []byte) error {
	next := path + ".new"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// newSeed makes a key and keeps its seed where nothing is.
func newSeed(path string) (public string, err error) {
	seed, public, err := natsadmin.NewKey()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("keep a seed: %w", err)
	}
	_, err = f.Write(append(seed, '\n'))
	return public, errors.Join(err, f.Sync(), f.Close())
}

func (d *authDir) add(t *tenants.Tenant, u tenants.User) error {
	if err := t.Add(u); err != nil {
		return service.UsageError{Err: err}
	}
	// A crash behind this leaves a seed that opens nothing; adding the user again says that the file is there.
	public, err := newSeed(d.seed(t.Name, u.Name))
	if err != nil {
		return err
	}
	t.Users[len(t.Users)-1].Key = public
	return d.save()
}

type authInitCmd struct {
	Dir string `arg:"" type:"path" help:"Directory: nobody else may read it."`
	URL string `placeholder:"URL" default:"nats://127.0.0.1:4222" help:"Where clients will connect (${default})."`
}

func (c *authInitCmd) Run(a *app) error {
	if err := natsio.CheckURL(c.URL); err != nil {
		return service.UsageError{Err: fmt.Errorf("--url: %w", err)}
	}
	path, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	d := &authDir{path: path, Directory: tenants.Directory{Version: tenants.Version, URL: c.URL}}
	if _, err := os.Stat(d.state()); err == nil {
		return service.UsageError{Err: fmt.Errorf("%s is there already", d.state())}
	}
	if d.System, err = newSeed(filepath.Join(path, "system.nk")); err != nil {
		return err
	}
	if err := d.save(); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "%s is ready. Next: spool auth tenant add %s NAME\n", d.path, c.Dir)
	return nil
}

type authTenantCmd struct {
	Dir  string `arg:"" type:"existingdir" help:"Directory of tenants."`
	Name string `arg:"" help:"Name of the tenant."`
	Disk size   `placeholder:"SIZE" help:"Most that all of its streams may take, 256MiB or more, as in 100GB; their own limits are fitted to that when they are created (default: any)."`
}

func (c *authTenantCmd) Run(a *app) error {
	d, err := openAuth(c.Dir)
	if err != nil {
		return err
	}
	if err := d.AddTenant(tenants.Tenant{Name: c.Name, Disk: int64(c.Disk)}); err != nil {
		return service.UsageError{Err: err}
	}
	t, err := d.Tenant(c.Name)
	if err != nil {
		return err
	}
	if err := d.add(t, tenants.User{Name: adminUser, Role: tenants.Admin}); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "Tenant %s, user %s: %s\nIt exists "+reread, t.Name, adminUser,
		d.seed(t.Name, adminUser), d.conf())
	return nil
}

type authTenantSetCmd struct {
	Dir  string `arg:"" type:"existingdir" help:"Directory of tenants."`
	Name string `arg:"" help:"Name of the tenant."`
	Disk size   `required:"" placeholder:"SIZE" help:"Most that all of its streams may take, 256MiB or more, as in 100GB; 0: any. Streams that are there keep their own limits."`
}

func (c *authTenantSetCmd) Run(a *app) error {
	d, err := openAuth(c.Dir)
	if err != nil {
		return err
	}
	t, err := d.Tenant(c.Name)
	if err != nil {
		return err
	}
	if err := tenants.CheckDisk(int64(c.Disk)); err != nil {
		return service.UsageError{Err: err}
	}
	t.Disk = int64(c.Disk)
	if err := d.save(); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "Tenant %s has another limit "+reread, t.Name, d.conf())
	return nil
}

// reread says when a change of a directory holds, and what is to be done for that.
const reread = "once the server has read %s again: spool up by a restart, a nats-server by --signal reload.\n"

type authUserCmd struct {
	Dir     string   `arg:"" type:"existingdir" help:"Directory of tenants."`
	User    string   `arg:"" name:"tenant/user" help:"The tenant and the name of its user, as in acme/ada."`
	Role    string   `required:"" placeholder:"ROLE" help:"admin, persister, ingest, gc, reader or agent."`
	Session []string `placeholder:"SESSION" help:"A session that an agent publishes to: its whole name. May be given several times."`
}

func (c *authUserCmd) Run(a *app) error {
	d, t, user, err := openUser(c.Dir, c.User)
	if err != nil {
		return err
	}
	if err := d.add(t, tenants.User{Name: user, Role: tenants.Role(c.Role), Sessions: c.Session}); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "User %s/%s, %s: %s\nIt is let in "+reread, t.Name, user, c.Role,
		d.seed(t.Name, user), d.conf())
	return nil
}

func openUser(dir, name string) (*authDir, *tenants.Tenant, string, error) {
	tenant, user, ok := strings.Cut(name, "/")
	if !ok {
		return nil, nil, "", service.UsageError{Err: fmt.Errorf("%q: use TENANT/USER", name)}
	}
	d, err := openAuth(dir)
	if err != nil {
		return nil, nil, "", err
	}
	t, err := d.Tenant(tenant)
	return d, t, user, err
}

type authRemoveCmd struct {
	Dir  string `arg:"" type:"existingdir" help:"Directory of tenants."`
	User string `arg:"" name:"tenant/user" help:"The tenant and the name of its user, as in acme/ada."`
}

func (c *authRemoveCmd) Run(a *app) error {
	d, t, user, err := openUser(c.Dir, c.User)
	if err != nil {
		return err
	}
	if err := t.Remove(user); err != nil {
		return err
	}
	if err := d.save(); err != nil {
		return err
	}
	// A crash before this leaves a seed that opens nothing.
	if err := os.Remove(d.seed(t.Name, user)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fmt.Fprintf(a.err, "User %s/%s is removed; it is shut out "+reread, t.Name, user, d.conf())
	return nil
}

type authLsCmd struct {
	Dir  string `arg:"" type:"existingdir" help:"Directory of tenants."`
	JSON bool   `help:"As JSON."`
}

func (c *authLsCmd) Run(a *app) error {
	d, err := openAuth(c.Dir)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.out).Encode(d.Directory)
	}
	w := text.NewTable(a.out)
	fmt.Fprintln(w, "USER\tROLE\tSESSIONS\tKEY")
	for _, t := range d.Tenants {
		for _, u := range t.Users {
			fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s\n", t.Name, u.Name, u.Role, strings.Join(u.Sessions, " "), u.Key)
		}
	}
	return w.Flush()
}

type authEnvCmd struct {
	Dir  string `arg:"" type:"existingdir" help:"Directory of tenants."`
	User string `arg:"" name:"tenant/user" help:"The tenant and the name of its user, as in acme/ada."`
}

func (c *authEnvCmd) Run(a *app) error {
	d, t, name, err := openUser(c.Dir, c.User)
	if err != nil {
		return err
	}
	u, err := t.User(name)
	if err != nil {
		return err
	}
	env := [][2]string{{"NATS_URL", d.URL}, {"NATS_NKEY", d.seed(t.Name, name)}, {"NATS_INBOX_PREFIX", u.Inbox()}}
	if s := u.Scope(); s != "" {
		env = append(env, [2]string{"SPOOL_SCOPE", string(s)})
	}
	for _, kv := range env {
		fmt.Fprintf(a.out, "export %s='%s'\n", kv[0], strings.ReplaceAll(kv[1], "'", `'\''`))
	}
	return nil
}
