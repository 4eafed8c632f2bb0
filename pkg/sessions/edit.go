package sessions

import (
	"slices"

	"spool/internal/jsonscan"
)

// change sets one member of an object, or removes it if value is nil.
type change struct {
	name  string
	value []byte
}

// edit returns the valid JSON object raw with members changed and every other byte as it was (SPEC T11). A member that is
// there changes where it stands, a new one is added at the end.
func edit(raw []byte, changes ...change) []byte {
	out := make([]byte, 0, len(raw)+64)
	done := make([]bool, len(changes))
	end, first := 0, true
	members(raw, func(key []byte, keyAt, at, to int) {
		value := raw[at:to]
		i := slices.IndexFunc(changes, func(c change) bool { return c.name == string(key) })
		if i >= 0 {
			value, done[i] = changes[i].value, true
		}
		switch {
		case value == nil:
			if end == 0 {
				out = append(out, raw[:keyAt]...)
			}
			end = to
			return
		case first && end > 0: // the members before it are gone, and so is their comma
			out = append(out, raw[keyAt:at]...)
		default:
			out = append(out, raw[end:at]...)
		}
		out = append(out, value...)
		end, first = to, false
	})
	if end == 0 {
		end = jsonscan.SkipSpace(raw, 0) + 1
		out = append(out, raw[:end]...)
	}
	for i, c := range changes {
		if done[i] || c.value == nil {
			continue
		}
		out = appendMember(out, first, c.name, c.value)
		first = false
	}
	return append(out, raw[end:]...)
}

// members walks a valid object: the key unescaped, where its token begins, and where its value begins and ends.
func members(raw []byte, f func(key []byte, keyAt, at, to int)) {
	i := jsonscan.SkipSpace(raw, jsonscan.SkipSpace(raw, 0)+1)
	for i < len(raw) && raw[i] == '"' {
		keyAt := i
		i = jsonscan.SkipString(raw, i)
		key := raw[keyAt+1 : i-1]
		if name, ok := jsonscan.Text(raw[keyAt:i]); ok && slices.Contains(key, '\\') {
			key = []byte(name)
		}
		at := jsonscan.SkipSpace(raw, jsonscan.SkipSpace(raw, i)+1)
		to := jsonscan.SkipValue(raw, at)
		f(key, keyAt, at, to)
		if i = jsonscan.SkipSpace(raw, to); raw[i] == ',' {
			i = jsonscan.SkipSpace(raw, i+1)
		}
	}
}

func appendMember(dst []byte, first bool, name string, value []byte) []byte {
	if !first {
		dst = append(dst, ',')
	}
	return append(append(jsonscan.AppendString(dst, name), ':'), value...)
}

func quoted(s string) []byte { return jsonscan.AppendString(nil, s) }

// quotedOrNull is null for "", which stands for no id.
func quotedOrNull(s string) []byte {
	if s == "" {
		return []byte("null")
	}
	return quoted(s)
}
