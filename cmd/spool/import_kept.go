package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"spool/internal/text"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/events"
)

// tellKept warns of what a former generation has and the file that replaced it does not say: labels, and a leaf that was
// moved. It is not set again by itself: the program that rewrote the file may have taken it away.
func tellKept(ctx context.Context, cl *client.Client, f *transcript.FileResult) {
	if f.Former == "" || f.Err != nil {
		return
	}
	was := events.Thread{Session: f.Session, Name: f.Former}
	warn := func(format string, args ...any) { f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...)) }
	before, err := cl.Thread(was).Tree(ctx)
	if err != nil {
		warn("what labels %s has cannot be read: %v", was, err)
		return
	}
	now, err := cl.Thread(f.ID()).Tree(ctx)
	if err != nil {
		warn("what labels of %s are not in %s cannot be told: %v", was, f.ID(), err)
		return
	}
	if !before.OMP {
		return
	}
	var there, gone []string
	labels := before.Labels()
	for _, e := range before.Entries() { // in their order
		label := labels[e.ID]
		if label == "" || now.Label(e.ID) == label {
			continue
		}
		said := fmt.Sprintf("%s %s", text.Printable(e.ID), text.Printable(fmt.Sprintf("%q", label)))
		if _, err := now.Entry(e.ID); err == nil {
			there = append(there, said)
		} else {
			gone = append(gone, said)
		}
	}
	if len(there) > 0 {
		warn("labels of entries that are still there, in %s alone: %s; set them again with: spool session label %s ENTRY TEXT",
			was, someOf(there), f.ID())
	}
	if len(gone) > 0 {
		warn("labels of entries that are gone, in %s alone: %s", was, someOf(gone))
	}
	if all := before.Entries(); len(all) > 0 && before.Leaf().ID() != all[len(all)-1].ID {
		warn("the leaf of %s was moved, to %s; that of %s is where the file has it; move it with: spool session branch %s ENTRY",
			was, cmp.Or(text.Printable(before.Leaf().ID()), "before the first entry"), f.ID(), f.ID())
	}
}

// someOf lists the first of many.
func someOf(all []string) string {
	const most = 10
	if len(all) > most {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(all, ", ")
}
