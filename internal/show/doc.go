// Package show says how an item of a thread reads to a person. Read makes of an item's JSON who said what, with which
// tool and with what result; Brief is that in one line. Terminal, Markdown and HTML write items one after the other, each
// result under its call. Nothing that an agent wrote can move the cursor of a terminal, or be markup of a page.
package show
