package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"spool/pkg/sessions"
)

// promised is what the records of the file become by SPEC S5 and S6, in the oracle's shape, told without the code that is
// compared with it. Ids that are given are of no file.
func (l *legacy) promised() map[string]any {
	current, header := currentOf(l.objects), any(nil)
	var entries, branch []any
	byID := map[string]any{}
	for _, o := range current {
		switch field(o, "type") {
		case sessions.TypeTitleSlot:
		case sessions.TypeHeader:
			if header == nil {
				header = o
			}
		default:
			entries = append(entries, o)
			byID[str(field(o, "id"))] = o
		}
	}
	var leaf any
	if len(entries) > 0 {
		leaf = field(entries[len(entries)-1], "id")
	}
	for e := byID[str(leaf)]; e != nil; e = byID[str(field(e, "parentId"))] {
		branch = append([]any{field(e, "id")}, branch...)
		delete(byID, str(field(e, "id"))) // a parent that is below ends the branch
	}
	file := l.text
	if l.file.Migrated {
		file = nil
		for _, o := range current {
			file = append(append(file, encodeJSON(o)...), '\n')
		}
	}
	if len(file) > 0 && !bytes.HasSuffix(file, []byte("\n")) {
		file = append(bytes.Clone(file), '\n')
	}
	added := map[string]any{
		"type": "message", "id": "<appended>", "parentId": leaf, "timestamp": appendedAt.Format("2006-01-02T15:04:05.000Z"),
		"message": map[string]any{"role": "user", "content": "APPENDED", "timestamp": json.Number("9")},
	}
	opened := map[string]any{
		"sessionId": field(header, "id"), "leafId": leaf, "header": header, "entries": orEmpty(entries), "branch": orEmpty(branch),
	}
	return l.replayed(l.objects, current, opened, string(file)+string(encodeJSON(added))+"\n")
}

func orEmpty(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}

// currentOf brings records to the current version, as SPEC S5 says.
func currentOf(records []any) []any {
	version, out, ids, last := 0, []any{}, []any{}, any(nil)
	taken := map[any]bool{}
	for _, r := range records {
		e, _ := clone(r).(map[string]any)
		switch typ := e["type"]; {
		case typ == sessions.TypeTitleSlot:
		case typ == sessions.TypeHeader && version == 0:
			if version = 1; e["version"] != nil {
				version, _ = number(e["version"])
			}
			if version < sessions.Version {
				e["version"] = integer(sessions.Version)
			}
			ids = append(ids, nil)
		case typ == sessions.TypeHeader:
			ids = append(ids, nil)
		default:
			if version < 2 {
				if id := str(e["id"]); id == "" || taken[id] {
					e["id"] = fmt.Sprintf("<given %d>", len(ids))
				}
				taken[e["id"]] = true
				e["parentId"], last = last, e["id"]
				ids = append(ids, last)
				keepFirst(e, ids)
			}
			if message, ok := e["message"].(map[string]any); ok && version < 3 && message["role"] == "hookMessage" {
				message["role"] = "custom"
			}
		}
		out = append(out, e)
	}
	return out
}

// keepFirst replaces the index of the first entry that a compaction keeps by its id.
func keepFirst(e map[string]any, ids []any) {
	n, ok := number(e["firstKeptEntryIndex"])
	if e["type"] != sessions.TypeCompaction || !ok {
		return
	}
	delete(e, "firstKeptEntryIndex")
	if 0 < n && n < len(ids) && ids[n] != nil {
		e["firstKeptEntryId"] = ids[n]
	}
}

// addsNothing: each record stands in the file behind the one before it, and is one that the oracle has, a line, an object
// that begins a line, or behind a torn record an entry: it has a type and a timestamp.
func (l *legacy) addsNothing() error {
	oracle := objects(items(l.want["loadEntriesFromFile"]))
	rest, at := l.text, 0
	for _, raw := range l.records {
		i := bytes.Index(rest[at:], raw)
		if i < 0 {
			return fmt.Errorf("%.80s is not in the file, or not behind the record before it", raw)
		}
		begin := at + i
		at = begin + len(raw)
		line := bytes.TrimSpace(bytes.TrimPrefix(rest[bytes.LastIndexByte(rest[:begin], '\n')+1:begin], []byte("\xef\xbb\xbf")))
		o := mustJSON(raw)
		_, typed := field(o, "type").(string)
		_, timed := field(o, "timestamp").(string)
		if len(line) > 0 && !(typed && timed) && !subsequence([]any{o}, oracle) {
			return fmt.Errorf("%.80s is no record: it stands in another one that was torn", raw)
		}
	}
	return nil
}
