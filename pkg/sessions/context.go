package sessions

import (
	"bytes"
	"maps"
	"slices"

	"spool/internal/jsonscan"
)

// Context is what the model is sent, and the state that the agent goes on with (SPEC S7).
type Context struct {
	Messages      [][]byte // each the JSON of a message
	ThinkingLevel string
	ServiceTier   string            // "" for none
	Models        map[string]string // provider/model by role; "default" is the main one
	InjectedRules []string          // each once, in the order in which it came first
	SelectedTools []string          // MCP tools, if ToolsSelected
	ToolsSelected bool
	Mode          string
	ModeData      []byte // JSON; nil for none
}

// Context is the context at a leaf: empty at Root, that of the last entry at a leaf which no entry has. It takes time in
// proportion to the path.
func (t *Tree) Context(leaf Leaf) Context {
	c := Context{ThinkingLevel: "off", Models: map[string]string{}, Mode: "none"}
	path := t.path(leaf)
	compaction := t.state(path, &c)
	if compaction < 0 {
		for _, i := range path {
			c.emit(&t.entries[i])
		}
		return c
	}
	compact := &t.entries[path[compaction]]
	payload := remoteHistory(compact.Raw)
	c.Messages = append(c.Messages, summaryMessage(compact, payload))
	if payload == nil { // else the provider has the kept range
		for _, i := range path[t.firstKept(path[:compaction], compact):compaction] {
			c.emit(&t.entries[i])
		}
	}
	for _, i := range path[compaction+1:] {
		c.emit(&t.entries[i])
	}
	return c
}

// state derives everything but the messages, from the leaf back to the root, so that the first of each kind is the latest.
// It returns the index in path of the last compaction, or -1.
func (t *Tree) state(path []int, c *Context) int {
	compaction := -1
	var thinking, mode, tier bool
	var answered string // model of the latest assistant message
	var injections []*Entry
	for n, i := range slices.Backward(path) {
		e := &t.entries[i]
		switch e.Type {
		case TypeMessage:
			if answered == "" && e.isAssistant() {
				answered = model(jsonscan.Get(e.Raw, "message"), "model")
			}
		case TypeCompaction:
			compaction = max(compaction, n)
		case TypeThinkingLevelChange:
			set(&thinking, func() { c.ThinkingLevel = textOr(jsonscan.Get(e.Raw, "thinkingLevel"), "off") })
		case TypeModelChange:
			if role := textOr(jsonscan.Get(e.Raw, "role"), "default"); c.Models[role] == "" {
				if m := changedModel(e.Raw); m != "" {
					c.Models[role] = m
				}
			}
		case TypeModeChange:
			set(&mode, func() { c.Mode, c.ModeData = textOr(jsonscan.Get(e.Raw, "mode"), "none"), jsonscan.Get(e.Raw, "data") })
		case TypeServiceTierChange:
			set(&tier, func() { c.ServiceTier = textOr(jsonscan.Get(e.Raw, "serviceTier"), "") })
		case TypeToolSelection:
			set(&c.ToolsSelected, func() { c.SelectedTools = texts(jsonscan.Get(e.Raw, "selectedToolNames")) })
		case TypeTTSRInjection:
			injections = append(injections, e)
		}
	}
	if c.Models["default"] == "" && answered != "" {
		c.Models["default"] = answered
	}
	seen := map[string]bool{}
	for _, e := range slices.Backward(injections) {
		for _, rule := range texts(jsonscan.Get(e.Raw, "injectedRules")) {
			if !seen[rule] {
				seen[rule] = true
				c.InjectedRules = append(c.InjectedRules, rule)
			}
		}
	}
	return compaction
}

// set does something once.
func set(done *bool, f func()) {
	if !*done {
		*done = true
		f()
	}
}

// changedModel is provider/model of a model_change, whose older form has the provider apart.
func changedModel(raw []byte) string {
	if m := textOr(jsonscan.Get(raw, "model"), ""); m != "" {
		return m
	}
	return model(raw, "modelId")
}

func model(raw []byte, name string) string {
	provider, model := textOr(jsonscan.Get(raw, "provider"), ""), textOr(jsonscan.Get(raw, name), "")
	if provider == "" || model == "" {
		return ""
	}
	return provider + "/" + model
}

// firstKept is the index in the path before a compaction from which on entries are kept: its length, for none, if the
// entry that the compaction names is not there.
func (t *Tree) firstKept(before []int, compact *Entry) int {
	kept := compact.kept
	if compact.fix&fixKept == 0 {
		kept = textOr(jsonscan.Get(compact.Raw, "firstKeptEntryId"), "")
	}
	i := slices.IndexFunc(before, func(i int) bool { return t.entries[i].ID == kept })
	if i < 0 || kept == "" {
		return len(before)
	}
	return i
}

// emit adds the message that an entry makes, if it makes one.
func (c *Context) emit(e *Entry) {
	switch e.Type {
	case TypeMessage:
		if message := jsonscan.Get(e.JSON(), "message"); message != nil {
			c.Messages = append(c.Messages, message)
		}
	case TypeCustomMessage:
		c.Messages = append(c.Messages, message("custom", e,
			[]string{"customType", "content", "display", "details", "attribution"}, nil))
	case TypeBranchSummary:
		if textOr(jsonscan.Get(e.Raw, "summary"), "") != "" {
			c.Messages = append(c.Messages, message("branchSummary", e, []string{"summary", "fromId"}, nil))
		}
	}
}

func summaryMessage(e *Entry, payload []byte) []byte {
	return message("compactionSummary", e, []string{"summary", "shortSummary", "tokensBefore"}, payload)
}

// message is the message that the program makes of an entry: some of its members under a role, and its time.
func message(role string, e *Entry, names []string, payload []byte) []byte {
	dst := append([]byte(`{"role":`), quoted(role)...)
	for _, name := range names {
		if value := jsonscan.Get(e.Raw, name); value != nil {
			dst = appendMember(dst, false, name, value)
		}
	}
	if payload != nil {
		dst = appendMember(dst, false, "providerPayload", payload)
	}
	return append(appendMember(dst, false, "timestamp", millis(jsonscan.Get(e.Raw, "timestamp"))), '}')
}

// remoteHistory is the providerPayload of a compaction that a provider did on its side, nil for any other: it stands for
// the kept range.
func remoteHistory(raw []byte) []byte {
	remote := jsonscan.Get(raw, "preserveData", "openaiRemoteCompaction")
	provider, items := jsonscan.Get(remote, "provider"), jsonscan.Get(remote, "replacementHistory")
	if textOr(provider, "") == "" || jsonscan.KindOf(items) != jsonscan.KindArray {
		return nil
	}
	dst := append([]byte(`{"type":"openaiResponsesHistory","provider":`), provider...)
	return append(appendMember(dst, false, "items", items), '}')
}

// textOr is the text of a string token, or what else to take.
func textOr(raw []byte, other string) string {
	if text, ok := jsonscan.Text(raw); ok {
		return text
	}
	return other
}

// texts are the strings in an array.
func texts(raw []byte) []string {
	var all []string
	_ = jsonscan.Array(raw, func(value []byte) bool {
		if text, ok := jsonscan.Text(value); ok {
			all = append(all, text)
		}
		return true
	})
	return all
}

// JSON is the context as the program's buildSessionContext returns it: in UTF-8, also where entries are not.
func (c Context) JSON() []byte {
	dst := []byte(`{"messages":[`)
	for i, m := range c.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m...)
	}
	dst = appendMember(append(dst, ']'), false, "thinkingLevel", quoted(c.ThinkingLevel))
	if c.ServiceTier != "" {
		dst = appendMember(dst, false, "serviceTier", quoted(c.ServiceTier))
	}
	dst = append(dst, `,"models":{`...)
	for i, role := range slices.Sorted(maps.Keys(c.Models)) {
		dst = appendMember(dst, i == 0, role, quoted(c.Models[role]))
	}
	dst = appendMember(append(dst, '}'), false, "injectedTtsrRules", quotedAll(c.InjectedRules))
	dst = appendMember(dst, false, "selectedMCPToolNames", quotedAll(c.SelectedTools))
	selected := "false"
	if c.ToolsSelected {
		selected = "true"
	}
	dst = appendMember(dst, false, "hasPersistedMCPToolSelection", []byte(selected))
	dst = appendMember(dst, false, "mode", quoted(c.Mode))
	if c.ModeData != nil {
		dst = appendMember(dst, false, "modeData", c.ModeData)
	}
	return bytes.ToValidUTF8(append(dst, '}'), []byte("\uFFFD"))
}
