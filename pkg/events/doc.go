// Package events is Spool's wire protocol, version 1: what an agent publishes and what a subscriber reads.
//
// An agent publishes an Event (an envelope around one raw entry, one chunk of tool output, or one control operation) to
// EventSubject. The persister turns it into nodes of a thread and publishes Items to ItemSubject. Every subject, stream,
// bucket, consumer and record key of the system is built in names.go; nothing else spells one out.
package events
