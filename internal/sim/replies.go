package sim

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/jsonscan"
)

// readReply reads what nats.go asks a server about a stream, a consumer, a list of them or a message into nats.go's own
// structures, as encoding/json would. testdata/speed/replies.txt has encoding/json ask it first: that takes a sixth of
// a schedule for these replies, most of it for configurations that have not changed since the last reply. false: v is
// something else, or the reply says something that is rare; then v is as it was.
func readReply(data []byte, v any) bool {
	t := reflect.TypeOf(v)
	read, known := replies[t]
	if !known {
		if t != nil && t.Kind() == reflect.Pointer && slices.Contains(replyNames, t.Elem().Name()) {
			read = parserOf(t.Elem())
		}
		replies[t] = read
	}
	if read == nil {
		return false
	}
	to := reflect.New(t.Elem()).Elem()
	if !read(data, to) {
		return false
	}
	reflect.ValueOf(v).Elem().Set(to)
	return true
}

// parser reads JSON into a value; false: it says something that is rare.
type parser func(raw []byte, to reflect.Value) bool

var (
	replyNames = []string{"streamInfoResponse", "consumerInfoResponse", "consumerListResponse", "apiMsgGetResponse"}
	replies    = map[reflect.Type]parser{} // by type; nil: encoding/json reads it
)

// parserOf gives the parser for a type; nil: values of it are rare.
func parserOf(t reflect.Type) parser {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return func(raw []byte, to reflect.Value) bool {
			return to.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw) == nil
		}
	}
	switch t {
	case reflect.TypeFor[jetstream.StreamConfig](), reflect.TypeFor[jetstream.ClusterInfo](),
		reflect.TypeFor[[]jetstream.PriorityGroupState]():
		return keptParser()
	case reflect.TypeFor[jetstream.ConsumerConfig]():
		return namelessParser()
	case reflect.TypeFor[[]byte]():
		return readBytes
	case reflect.TypeFor[map[string]uint64]():
		return readCounts
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64, reflect.Uint16, reflect.Uint64:
		return readNumber
	case reflect.String:
		return readText
	case reflect.Struct:
		return objectParser(t)
	case reflect.Pointer, reflect.Slice:
		if one := parserOf(t.Elem()); one != nil && t.Kind() == reflect.Pointer {
			return func(raw []byte, to reflect.Value) bool {
				to.Set(reflect.New(t.Elem()))
				return one(raw, to.Elem())
			}
		} else if one != nil {
			return listParser(one)
		}
	}
	return nil
}

func readNumber(raw []byte, to reflect.Value) bool {
	n, ok := jsonscan.Int(raw)
	if to.CanInt() {
		to.SetInt(n)
	} else {
		to.SetUint(uint64(n))
	}
	return ok
}

func readText(raw []byte, to reflect.Value) bool {
	s, ok := jsonscan.Text(raw)
	to.SetString(s)
	return ok
}

func readBytes(raw []byte, to reflect.Value) bool {
	s, ok := jsonscan.Text(raw)
	b, err := base64.StdEncoding.DecodeString(s)
	to.SetBytes(b)
	return ok && err == nil
}

func readCounts(raw []byte, to reflect.Value) bool {
	counts := map[string]uint64{}
	to.Set(reflect.ValueOf(counts))
	return members(raw, func(key, value []byte) bool {
		n, ok := jsonscan.Int(value)
		counts[string(key)] = uint64(n)
		return ok
	})
}

// members reads the members of an object; false: it is none, or read could not read one of them.
func members(raw []byte, read func(key, value []byte) bool) bool {
	ok := true
	err := jsonscan.Object(raw, func(key, value []byte) bool {
		ok = read(key, value)
		return ok
	})
	return ok && err == nil
}

func listParser(one parser) parser {
	return func(raw []byte, to reflect.Value) bool {
		ok := true
		to.Set(reflect.MakeSlice(to.Type(), 0, 0))
		err := jsonscan.Array(raw, func(value []byte) bool {
			v := reflect.New(to.Type().Elem()).Elem()
			ok = one(value, v)
			to.Set(reflect.Append(to, v))
			return ok
		})
		return ok && err == nil
	}
}

func objectParser(t reflect.Type) parser {
	type field struct {
		at   []int
		read parser
	}
	fields := map[string]field{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if read := parser(nil); name != "" && f.IsExported() {
			if read = parserOf(f.Type); read != nil {
				fields[name] = field{f.Index, read}
			}
		}
	}
	return func(raw []byte, to reflect.Value) bool {
		return members(raw, func(key, value []byte) bool {
			f, known := fields[string(key)]
			return known && f.read(value, fieldAt(to, f.at))
		})
	}
}

// fieldAt is a field of a structure, which may be in one that is embedded, made when its first field is read.
func fieldAt(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

// keptParser keeps what was read before, by its text. What is read from the same text shares what is in it: nobody
// changes it.
func keptParser() parser {
	kept := map[string]reflect.Value{}
	return func(raw []byte, to reflect.Value) bool {
		if have, ok := kept[string(raw)]; ok {
			to.Set(have)
			return true
		}
		if json.Unmarshal(raw, to.Addr().Interface()) != nil {
			return false
		}
		if len(kept) >= 1000 {
			clear(kept)
		}
		have := reflect.New(to.Type()).Elem()
		have.Set(to)
		kept[string(raw)] = have
		return true
	}
}

// namelessParser keeps configurations of consumers without the name: most consumers have one of their own.
func namelessParser() parser {
	kept, member := keptParser(), []byte(`"name":"`)
	return func(raw []byte, to reflect.Value) bool {
		i := bytes.Index(raw, member)
		if i < 0 {
			return kept(raw, to)
		}
		from := i + len(member) - 1
		end := jsonscan.SkipString(raw, from)
		if end <= 0 || end >= len(raw) || raw[end] != ',' {
			return kept(raw, to)
		}
		return kept(slices.Concat(raw[:i], raw[end+1:]), to) && readText(raw[from:end], to.FieldByName("Name"))
	}
}

// takeReplies has encoding/json ask readReply.
func takeReplies() {}
