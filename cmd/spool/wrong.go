package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"spool/internal/mapped"
	"spool/internal/service"
)

const (
	noCommand = "there is no command COMMAND"
	tooMany   = "$1 is one word too many: use USAGE"
)

// rewordings are what kong says of a command line, and what a person is told instead: what is wrong, where, and what to do. All of kong's
// errors are of one type, so that its words alone tell them apart; TestWrongWords fails if it changes them. A list of kong's is said in
// words. COMMAND is what is no command, USAGE how the command is called.
var rewordings = []struct{ kong, ours string }{
	{`unexpected argument (.*), did you mean (?:one of )?(?P<list>".*")\?`, noCommand + ": did you mean $2?"},
	{`unexpected argument (.*)`, tooMany},
	{`unknown flag (--.*), did you mean (?:one of )?(?P<list>".*")\?`, "there is no flag $1: did you mean $2?"},
	{`unknown flag (.*?)(?:, did you mean .*)?`, "there is no flag $1"}, // every letter is like another one
	{`expected one of (?P<list>".*")`, "a command is missing: use $1"},
	{`expected "(.*)"`, "$1 is missing: use USAGE"},
	{`missing flags: (.*)`, "a flag is missing: add $1"},
	{`(--\S+ and --\S+) can't be used together`, "$1 exclude each other: use one of them"},
	{`(\S+): (?:expected \S+ value but got "EOL"|missing value, expecting) .*`, "$1 needs a value"},
	{`(\S+): expected \S+ value but got (".*") .*; perhaps try (.*=".*")\?`, "$1 $2: use $3"},
	{`(.+): expected a valid \d+ bit u?int but got (".*")`, "$1 $2: use a whole number"},
	{`(\S+): (?:invalid map value|expected a float but got) (".*?")(?: \(.*?\))?`, "$1 $2: use a number"},
	{`(\S+): expected "<key>=<value>" but got (".*")`, "$1 $2: use NAME=VALUE"},
	{`(\S+): expected duration but got (".*?")(?:: time: .*)?`, "$1 $2: use a duration like 90s, 10m or 36h"},
	{`(\S+): bool value must be .* but got (".*")`, "$1 $2: use true or false"},
	{`(\S+) must be one of (?:"",)?(?P<list>".*") but got (".*")`, "$1 $3: use $2"},
}

// reworded is an error of a command line in this program's words; at is the command that the line names before it is wrong, nil for none.
func reworded(err error, at *kong.Node) error {
	for _, r := range rewordings {
		pattern := regexp.MustCompile("(?s)^" + r.kong + "$")
		parts := pattern.FindStringSubmatch(err.Error())
		if parts == nil {
			continue
		}
		ours := r.ours
		if ours == tooMany && (at == nil || len(at.Children) > 0) {
			ours = noCommand
		}
		words := []string{"COMMAND", strings.TrimSpace(commandOf(at) + " " + parts[1]), "USAGE", usage(at)}
		for i, part := range parts[1:] {
			if pattern.SubexpNames()[i+1] == "list" {
				part = anyOf(part)
			}
			words = append(words, fmt.Sprintf("$%d", i+1), part)
		}
		return errors.New(strings.NewReplacer(words...).Replace(ours))
	}
	return err
}

// sound refuses a command line that kong takes: a flag that is out of its range, and what may be a misspelt command.
func sound(kctx *kong.Context) error {
	err := inRange(kctx)
	if err == nil {
		err = spelt(kctx)
	}
	return err
}

// spelt refuses a word for the file of a command that need not be named, unless it is there, or is written as a path: what is no command
// beside it would be a file of that name.
func spelt(kctx *kong.Context) error {
	at := kctx.Selected()
	if at.Parent.DefaultCmd != at || slices.Contains(kctx.Args, at.Name) {
		return nil
	}
	for _, p := range at.Positional {
		word := p.Target.String()
		if _, err := os.Lstat(word); p.Tag.Type != "path" || strings.ContainsRune(word, filepath.Separator) || err == nil {
			continue
		}
		all := mapped.List(at.Parent.Children, func(n *kong.Node) string { return n.Name })
		group := "spool " + commandOf(at.Parent)
		return service.UsageError{Command: group, Err: fmt.Errorf("%s is no command of %s, which are %s, and is not there: to begin it, use spool %s %[1]s",
			word, group, strings.Join(all, ", "), commandOf(at))}
	}
	return nil
}

// inRange refuses a number or a duration of a flag that is out of the range that its tags say, and nothing where it takes one of a few words.
func inRange(kctx *kong.Context) error {
	for _, f := range kctx.Flags() {
		v := kctx.FlagValue(f)
		given := slices.ContainsFunc(kctx.Path, func(p *kong.Path) bool { return p.Flag == f })
		if !given && reflect.ValueOf(v).IsZero() {
			continue
		}
		err := service.InRange(v, f.Tag)
		if given && v == "" && f.Enum != "" {
			return service.UsageError{Err: fmt.Errorf("--%s \"\": %w", f.Name, useWord(f)), Command: "spool " + commandOf(kctx.Selected())}
		}
		if err != nil {
			err = fmt.Errorf("--%s %v: %w", f.Name, reflect.Indirect(reflect.ValueOf(v)), err)
			return service.UsageError{Err: err, Command: "spool " + commandOf(kctx.Selected())}
		}
	}
	return nil
}

// useWord says which words a flag takes.
func useWord(f *kong.Flag) error {
	return fmt.Errorf("use %s", anyOf(`"`+strings.ReplaceAll(strings.TrimPrefix(f.Enum, ","), ",", `", "`)+`"`))
}

// something is a mapper of kong's, by the name of its type, that refuses nothing: kong takes it for the current directory.
func something(name string) kong.Option {
	kongs := kong.NewRegistry().RegisterDefaults().ForNamedType(name, reflect.TypeFor[string]())
	return kong.NamedMapper(name, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		if token := ctx.Scan.Peek(); token.Value == "" {
			return errors.New(`"": use the name of a file or directory`)
		}
		return kongs.Decode(ctx, target)
	}))
}

// emptyIsUnset takes from flags the variables of the environment that are set to nothing: they say as little as those that are not set.
func emptyIsUnset(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			f.Tag.Envs = slices.DeleteFunc(slices.Clone(f.Tag.Envs), func(name string) bool {
				value, set := os.LookupEnv(name)
				return set && value == ""
			})
		}
		return next(nil)
	})
}

// pathOf reads where something is to be in the file system, for fields of the type path: an address of another kind, and nothing, as of a
// variable that is not set, are refused before a directory of that name is made. A home directory is the shell's business,
// but for a word that it does not see, as behind --data=.
func pathOf(ctx *kong.DecodeContext, target reflect.Value) error {
	var name string
	if err := ctx.Scan.PopValueInto("file", &name); err != nil {
		return err
	}
	if name == "" || strings.Contains(name, "://") {
		return fmt.Errorf("%q: use the name of a file or directory", name)
	}
	if strings.HasPrefix(name, "~/") {
		name = kong.ExpandPath(name)
	}
	target.SetString(name)
	return nil
}

// anyOf is a list of kong's in words.
func anyOf(quoted string) string {
	all := strings.Split(strings.ReplaceAll(strings.Trim(quoted, `"`), `", "`, `","`), `","`)
	if last := len(all) - 1; last > 0 {
		return strings.Join(all[:last], ", ") + " or " + all[last]
	}
	return all[0]
}

// usage is how a command is called; nil is the program.
func usage(command *kong.Node) string {
	words := "spool"
	if command != nil {
		words += " " + commandOf(command)
		for _, p := range command.Positional {
			words += " " + p.Summary()
		}
	}
	return words
}
