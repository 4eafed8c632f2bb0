// Command sbom lists what commands are built from: CycloneDX 1.6 in JSON, from the build information that the Go toolchain
// puts into every binary. So the list is of what runs, not of what go.mod says could.
//
//	go run ./internal/sbom BINARY... > spool.cdx.json
//
// Modules are looked for in the module cache, for their licenses; run it from the root of the tree. The same binaries give the
// same bytes.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	flag.Parse()
	if err := run(os.Stdout, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, binaries []string) error {
	if len(binaries) == 0 {
		return errors.New("name the binaries")
	}
	dirs, err := moduleDirs()
	if err != nil {
		return err
	}
	b, err := list(binaries, dirs)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(b)
}

// The parts of CycloneDX 1.6 that are used.
type (
	bom struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Serial     string      `json:"serialNumber"` // derived from the components
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
		Depends    []depends   `json:"dependencies"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl,omitempty"`
		Licenses   []license  `json:"licenses,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	license struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	depends struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
)

const (
	propSum     = "go:h1"         // of the module, as go.sum has it
	propCommand = "spool:command" // a command that it is in
)

// list is the bill of materials of some binaries of one module.
func list(binaries []string, dirs map[string]string) (*bom, error) {
	b := &bom{Format: "CycloneDX", Spec: "1.6", Version: 1}
	found := map[string]*component{}
	for _, path := range binaries {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		b.Metadata.Component = component{Type: "application", Ref: info.Main.Path, Name: info.Main.Path, Version: info.Main.Version}
		std := &component{Type: "library", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
			PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
		if err := std.licensed("BSD-3-Clause"); err != nil {
			return nil, err
		}
		found[std.PURL] = cmp.Or(found[std.PURL], std)
		found[std.PURL].Properties = append(found[std.PURL].Properties, property{propCommand, name})
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			c := found[purl(m.Path, m.Version)]
			if c == nil {
				c = &component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version),
					Properties: []property{{propSum, m.Sum}}}
				id, err := licenseOf(dirs[m.Path+"@"+m.Version])
				if err == nil {
					err = c.licensed(id)
				}
				if err != nil {
					return nil, fmt.Errorf("%s %s: %w", m.Path, m.Version, err)
				}
				found[c.PURL] = c
			}
			c.Properties = append(c.Properties, property{propCommand, name})
		}
	}
	all := depends{Ref: b.Metadata.Component.Ref}
	sum := sha256.New()
	for _, c := range found {
		c.Ref = c.PURL
		b.Components = append(b.Components, *c)
	}
	slices.SortFunc(b.Components, func(x, y component) int { return cmp.Compare(x.PURL, y.PURL) })
	for _, c := range b.Components {
		all.On = append(all.On, c.Ref)
		fmt.Fprintf(sum, "%+v\n", c)
	}
	b.Depends = []depends{all}
	id := sum.Sum(nil)[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8: made by its own rule
	b.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	return b, nil
}

// purl is a module's package URL: lower case, as the type golang has it.
func purl(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + strings.ReplaceAll(version, "+", "%2B")
}

func (c *component) licensed(id string) error {
	if !slices.Contains(allowed, id) {
		return fmt.Errorf("license %s is not one of %s", id, strings.Join(allowed, ", "))
	}
	var l license
	l.License.ID = id
	c.Licenses = append(c.Licenses, l)
	return nil
}

// allowed are the licenses that a module may have: none asks for more than to be named.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

func licenseOf(dir string) (id string, err error) {
	if dir == "" {
		return "", errors.New("it is not in the module cache: go mod download")
	}
	for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "LICENSE-GO", "LICENCE", "COPYING", "License"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if id := identify(string(text)); id != "" {
			return id, nil
		}
	}
	return "", fmt.Errorf("no license that is known in %s", dir)
}

func identify(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case has("apache license version 2.0"):
		return "Apache-2.0"
	case has("redistribution and use in source and binary forms") && (has("neither the name") || has("names of its contributors may")):
		return "BSD-3-Clause"
	case has("redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("permission to use, copy, modify, and/or distribute this software") ||
		has("permission to use, copy, modify, and distribute this software"):
		return "ISC"
	case has("permission is hereby granted, free of charge, to any person obtaining a copy"):
		return "MIT"
	}
	return ""
}

// moduleDirs says where the module cache has the modules that the commands are built from, by path@version.
func moduleDirs() (map[string]string, error) {
	cmd := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{with .Replace}}{{.Path}}@{{.Version}} {{.Dir}}{{else}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}", module+"/cmd/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		dirs[name] = dir
	}
	delete(dirs, module+"@") // this one
	return dirs, nil
}

const module = "spool"
