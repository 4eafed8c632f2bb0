package sessions

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"spool/internal/jsonscan"
)

// Draft is an entry before it has its place: its type and its own members, in the order in which the program writes them.
// Tree.Append makes it an entry. Arguments of type []byte are JSON, nil for a member that is absent.
type Draft struct {
	typ           string
	before, after []byte // members, each with a comma in front, before and after id, parentId and timestamp
	target        string // an entry that must exist; "" for none
}

// Stamp is what whoever appends an entry gives it. An empty ID means the EntryID of its position.
type Stamp struct {
	ID   string
	Time time.Time
}

// entry is the draft under its parent, "" for a root.
func (d Draft) entry(s Stamp, parent string) Entry {
	raw := append([]byte(`{"type":`), quoted(d.typ)...)
	raw = append(raw, d.before...)
	raw = appendMember(raw, false, "id", quoted(s.ID))
	raw = appendMember(raw, false, "parentId", quotedOrNull(parent))
	raw = appendMember(raw, false, "timestamp", quoted(FormatTime(s.Time)))
	raw = append(append(raw, d.after...), '}')
	return Entry{Type: d.typ, ID: s.ID, Parent: parent, Raw: raw}
}

// with adds members after the stamp; those without a value are left out.
func (d Draft) with(members ...change) Draft {
	d.after = appendPresent(slices.Clip(d.after), members)
	return d
}

func appendPresent(dst []byte, members []change) []byte {
	for _, m := range members {
		if m.value != nil {
			dst = appendMember(dst, false, m.name, m.value)
		}
	}
	return dst
}

// Message is a message of any role.
func Message(message []byte) Draft { return Draft{typ: TypeMessage}.with(change{"message", message}) }

// ThinkingLevelChange is a change of the thinking level; "" is written as null and means "off".
func ThinkingLevelChange(level string) Draft {
	return Draft{typ: TypeThinkingLevelChange}.with(change{"thinkingLevel", quotedOrNull(level)})
}

// ModelChange is a change of the model, "provider/model", for a role; "" is the default role.
func ModelChange(model, role string) Draft {
	return Draft{typ: TypeModelChange}.with(change{"model", quoted(model)}, optional("role", role))
}

// ServiceTierChange is a change of the provider's service tier; "" is written as null and means none.
func ServiceTierChange(tier string) Draft {
	return Draft{typ: TypeServiceTierChange}.with(change{"serviceTier", quotedOrNull(tier)})
}

// Summarized is what a compaction and a branch summary have in common.
type Summarized struct {
	Summary       string
	Details       []byte
	FromExtension []byte // true or false
}

// Compaction replaces everything on the path before FirstKept by its summary.
type Compaction struct {
	Summarized
	ShortSummary string
	FirstKept    string // id of an entry on the path; any other keeps nothing
	TokensBefore int64
	Preserve     []byte // what an extension or provider keeps over the compaction
}

// Draft is the entry of a compaction.
func (c Compaction) Draft() Draft {
	return Draft{typ: TypeCompaction}.with(
		change{"summary", quoted(c.Summary)}, optional("shortSummary", c.ShortSummary),
		change{"firstKeptEntryId", quoted(c.FirstKept)}, change{"tokensBefore", strconv.AppendInt(nil, c.TokensBefore, 10)},
		change{"details", c.Details}, change{"fromExtension", c.FromExtension}, change{"preserveData", c.Preserve},
	)
}

// Custom is state that an extension keeps in the session; it never reaches the model.
func Custom(customType string, data []byte) Draft {
	return Draft{typ: TypeCustom, before: appendPresent(nil, []change{{"customType", quoted(customType)}, {"data", data}})}
}

// CustomMessage is a message of an extension to the model: content is a text or an array of blocks. display shows it to
// the user, too; attribution is who speaks, "agent" if it is "".
func CustomMessage(customType string, content []byte, display bool, details []byte, attribution string) Draft {
	attribution = cmp.Or(attribution, "agent")
	return Draft{typ: TypeCustomMessage, before: appendPresent(nil, []change{
		{"customType", quoted(customType)}, {"content", content}, {"display", strconv.AppendBool(nil, display)},
		{"details", details}, {"attribution", quoted(attribution)},
	})}
}

// Label names the entry target; "" takes its name away (SPEC S4). The target must exist.
func Label(target, label string) Draft {
	d := Draft{typ: TypeLabel, target: target}
	return d.with(change{"targetId", quoted(target)}, optional("label", label))
}

// TTSRInjection records rules that were shown to the model.
func TTSRInjection(rules []string) Draft {
	return Draft{typ: TypeTTSRInjection}.with(change{"injectedRules", quotedAll(rules)})
}

// ToolSelection records the MCP tools that the user chose.
func ToolSelection(names []string) Draft {
	return Draft{typ: TypeToolSelection}.with(change{"selectedToolNames", quotedAll(names)})
}

// SessionInit records how a subagent was started: init is an object whose members become those of the entry.
func SessionInit(init []byte) Draft {
	d := Draft{typ: TypeSessionInit}
	_ = jsonscan.Object(init, func(key, value []byte) bool {
		d.after = appendMember(d.after, false, string(key), value)
		return true
	})
	return d
}

// ModeChange is a change of the agent's mode.
func ModeChange(mode string, data []byte) Draft {
	return Draft{typ: TypeModeChange}.with(change{"mode", quoted(mode)}, change{"data", data})
}

func optional(name, value string) change {
	if value == "" {
		return change{name: name}
	}
	return change{name, quoted(value)}
}

func quotedAll(texts []string) []byte {
	dst := []byte{'['}
	for i, s := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonscan.AppendString(dst, s)
	}
	return append(dst, ']')
}
