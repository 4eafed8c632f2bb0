package archtest

import "slices"

// rule says what packages may import in production code. Standard packages are free but for what their layer forbids.
type rule struct {
	layer layer
	pkgs  []string // whose rule this is; "x/..." is x and all below it
	spool []string // packages of this module that they may import
	mods  []string // other modules' packages that they may import; "..." = any that is not reserved
}

// layer is a row of the table in DESIGN 12.
type layer int

const (
	pure   layer = iota // values in, values out: no clock, logger, goroutine, file or network
	decide              // the services' decisions against interfaces they declare: no NATS, network or environment
	adapt               // NATS, HTTP, the SDK
	wire                // configuration, processes
	test                // for tests and measuring; nobody else imports it
)

func (l layer) String() string {
	return [...]string{"0 (pure)", "1 (decide)", "2 (adapt)", "3 (wire)", "test"}[l]
}

const (
	msgpack = "github.com/vmihailenco/msgpack/v5"
	zstd    = "github.com/klauspost/compress/zstd"
	snappy  = "github.com/klauspost/compress/s2"
	backoff = "github.com/cenkalti/backoff/v4"
	ulid    = "github.com/oklog/ulid/v2"
	xsync   = "golang.org/x/sync/..."
	any_    = "..."
)

// layer0 is what every layer above may import.
var layer0 = []string{
	"internal/bounded", "internal/family", "internal/jsonscan", "internal/keyset", "internal/mapped", "internal/redact", "internal/runes", "internal/text", "internal/shortid",
	"internal/show",
	"pkg/events", "pkg/truncate", "pkg/truncate/output", "pkg/casstore", "pkg/threads",
	"pkg/sessions", "pkg/dialect", "pkg/artifacts",
}

// shared are the packages of layer 1 that others of it build on.
var shared = []string{"internal/record", "internal/retry", "internal/project", "internal/rehydrate", "internal/sleep"}

var layer1 = slices.Concat(shared, []string{
	"internal/apply", "internal/persist", "internal/ingest", "internal/gc", "internal/fsck", "internal/transcript",
	"internal/retention", "internal/scrub", "internal/tenants",
	"internal/quota", "internal/proof",
})

func without(list []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == name })
}

var rules = []rule{
	{pure, []string{"internal/bounded", "internal/family", "internal/gc/model", "internal/jsonscan", "internal/keyset", "internal/mapped", "internal/runes", "internal/shortid"}, nil, nil},
	{pure, []string{"internal/text"}, nil, []string{"github.com/clipperhouse/displaywidth"}},
	{pure, []string{"internal/show"}, []string{"internal/jsonscan", "internal/text", "pkg/events"}, nil},
	{pure, []string{"internal/redact"}, nil, []string{"github.com/BurntSushi/toml"}},
	{pure, []string{"pkg/events"}, []string{"internal/bounded", "internal/family", "internal/jsonscan", "internal/runes"}, []string{msgpack}},
	{pure, []string{"pkg/truncate"}, []string{"internal/family", "internal/jsonscan", "internal/runes"}, nil},
	{pure, []string{"pkg/truncate/output"}, []string{"internal/family", "internal/runes"}, nil},
	{pure, []string{"pkg/casstore"}, []string{"internal/bounded", "internal/family"}, []string{msgpack, zstd, snappy}},
	{pure, []string{"pkg/threads"}, []string{"internal/bounded", "internal/family", "internal/runes", "pkg/casstore"}, nil},
	{pure, []string{"pkg/sessions"}, []string{"internal/family", "internal/jsonscan", "internal/shortid", "pkg/events"}, nil},
	{pure, []string{"pkg/dialect/..."}, []string{"internal/family", "internal/jsonscan", "pkg/events", "pkg/sessions", "pkg/dialect/..."}, nil},
	{pure, []string{"pkg/artifacts"}, []string{"internal/bounded", "internal/family", "internal/jsonscan", "pkg/events", "pkg/truncate"}, []string{msgpack}},

	{decide, []string{"internal/record"}, layer0, []string{msgpack, xsync}},
	{decide, []string{"internal/retry"}, slices.Concat(layer0, []string{"internal/record"}), []string{backoff}},
	{decide, []string{"internal/sleep"}, nil, nil},
	{decide, []string{"internal/project"}, layer0, []string{xsync}},
	{decide, []string{"internal/rehydrate"}, slices.Concat(layer0, []string{"internal/project"}), nil},
	{decide, []string{"internal/apply"}, slices.Concat(layer0, []string{"internal/record", "internal/project", "internal/rehydrate"}), nil},
	{decide, []string{"internal/persist"}, slices.Concat(layer0, shared, []string{"internal/apply"}), []string{xsync}},
	{decide, []string{"internal/ingest", "internal/gc"}, slices.Concat(layer0, shared), []string{xsync, ulid, msgpack}},
	{decide, []string{"internal/fsck"}, slices.Concat(layer0, shared, []string{"internal/apply"}), []string{xsync, ulid}},
	{decide, []string{"internal/retention"}, nil, nil},
	{decide, []string{"internal/share"}, nil, []string{xsync}},
	{decide, []string{"internal/quota"}, []string{"internal/text"}, nil},
	{decide, []string{"internal/proof"}, layer0, []string{"golang.org/x/mod/sumdb/note"}},
	{decide, []string{"internal/scrub"}, slices.Concat(layer0, shared), []string{xsync}},
	{decide, []string{"internal/tenants"}, []string{"pkg/events"}, nil},
	{decide, []string{"internal/transcript"}, slices.Concat(layer0, shared), []string{xsync, ulid, zstd}},

	{adapt, []string{"internal/natsio"}, slices.Concat(layer0, shared), []string{any_}},
	{adapt, []string{"internal/persist/persistnats"}, slices.Concat(layer0, shared, []string{
		"internal/natsio", "internal/sessionstore", "internal/persist",
	}), []string{any_}},
	{adapt, []string{"internal/gc/gcnats"}, slices.Concat(layer0, shared, []string{"internal/natsio", "internal/gc"}), []string{any_}},
	{adapt, []string{"internal/natsadmin", "internal/artifactstore"},
		slices.Concat(layer0, shared, []string{"internal/natsio"}), []string{any_}},
	{adapt, []string{"internal/sessionstore"}, slices.Concat(layer0, shared,
		[]string{"internal/natsio", "internal/artifactstore"}), []string{any_}},
	{adapt, []string{"internal/offline"}, slices.Concat(layer0, []string{"internal/record"}), []string{ulid}},
	{adapt, []string{"internal/reload"}, []string{"internal/sleep"}, nil},
	{adapt, []string{"internal/watch"}, nil, []string{"github.com/fsnotify/fsnotify"}},
	{adapt, []string{"internal/access"}, []string{"internal/reload"}, nil},
	{adapt, []string{"pkg/client"}, // a client knows what an event will do (internal/apply), not who does it
		slices.Concat(layer0, without(layer1, "internal/persist"), []string{
			"internal/natsio", "internal/artifactstore", "internal/sessionstore", "internal/offline",
		}), []string{any_}},
	{adapt, []string{"internal/web"},
		slices.Concat(layer0, layer1, []string{
			"internal/access", "internal/natsio", "internal/artifactstore", "internal/sessionstore", "internal/offline", "internal/web",
			"internal/history", "pkg/client",
		}), []string{any_}},
	{adapt, []string{"internal/httpapi"},
		slices.Concat(layer0, layer1, []string{
			"internal/access", "internal/reload", "internal/natsio", "internal/natsadmin", "internal/offline", "internal/web", "internal/history",
			"internal/claudestore", "internal/dstreams", "internal/subscriptions", "internal/mcp", "internal/view", "pkg/client",
		}), []string{any_}},

	{adapt, []string{"internal/view"}, slices.Concat(layer0, layer1, []string{"internal/history", "pkg/client"}), []string{any_}},

	{adapt, []string{"internal/mcp"}, slices.Concat(layer0, layer1,
		[]string{"internal/access", "internal/history", "internal/view", "pkg/client"}), []string{any_}},

	{adapt, []string{"internal/acp"}, slices.Concat(layer0, []string{"pkg/client"}), []string{ulid}},

	{adapt, []string{"internal/history"}, slices.Concat(layer0, layer1, []string{"internal/natsio", "pkg/client"}), []string{any_}},

	{adapt, []string{"internal/webhook"}, nil, nil},

	{adapt, []string{"internal/notify"}, []string{"internal/webhook", "pkg/client", "pkg/events"}, []string{xsync, "github.com/cenkalti/backoff/v4"}},

	{adapt, []string{"internal/dstreams"}, slices.Concat(layer0, layer1,
		[]string{"internal/natsio", "pkg/client", "pkg/dialect/raw"}), []string{any_}},

	{adapt, []string{"internal/subscriptions"}, slices.Concat(layer0, layer1,
		[]string{"internal/natsio", "internal/dstreams", "internal/webhook", "pkg/client"}), []string{xsync}},

	{adapt, []string{"internal/claudestore"}, slices.Concat(layer0, layer1,
		[]string{"internal/natsio", "internal/interchange", "pkg/client"}), []string{any_}},

	{adapt, []string{"internal/interchange"}, slices.Concat(layer0, layer1,
		[]string{"internal/natsio", "internal/artifactstore", "pkg/client"}), []string{any_}},

	{adapt, []string{"internal/backup"}, slices.Concat(layer0, layer1, []string{"internal/natsio", "internal/natsadmin"}), []string{any_}},

	{adapt, []string{"internal/metrics"}, slices.Concat(layer0, layer1, []string{"internal/natsio", "internal/natsadmin"}), []string{any_}},

	{wire, []string{"internal/embedded"}, []string{"internal/reload", "internal/sleep"}, []string{any_}},
	{wire, []string{"internal/service"},
		slices.Concat(layer0, layer1, []string{
			"internal/access", "internal/natsio", "internal/natsadmin", "internal/artifactstore", "internal/sessionstore", "internal/gc/gcnats",
			"internal/persist/persistnats", "internal/share", "internal/history", "internal/httpapi", "internal/web",
			"internal/embedded", "internal/metrics", "internal/dstreams", "internal/subscriptions", "pkg/client",
		}), []string{any_}},
	{wire, []string{"cmd/...", "examples/...", "internal/demo", "internal/daemon"},
		slices.Concat(layer0, layer1, []string{
			"internal/access", "internal/acp", "internal/backup", "internal/natsio", "internal/natsadmin", "internal/artifactstore", "internal/history",
			"internal/interchange", "internal/mcp", "internal/notify", "internal/offline", "internal/view", "internal/watch",
			"internal/httpapi", "internal/dstreams", "internal/subscriptions", "internal/web", "internal/embedded", "internal/service",
			"internal/bench", "internal/demo", "internal/daemon",
			"pkg/client", "examples/...",
		}), []string{any_}},

	{wire, []string{"adapters/..."}, []string{"pkg/client", "pkg/events", "pkg/threads"}, []string{any_}}, // modules of their own

	{test, []string{
		"internal/memjs", "internal/sim/...", "internal/must", "internal/natstest", "internal/faulttest", "internal/archtest",
		"internal/bench", "internal/sbom",
		"e2e/...", "tools/...", "pkg/casstore/storetest", "pkg/spooltest",
	}, []string{any_}, []string{any_}},
}

// reserved are modules that only some packages may import, whatever their rule says otherwise.
var reserved = []struct {
	mod string
	by  []string
}{
	{"github.com/nats-io/nats-server/...", []string{
		"internal/embedded", "internal/memjs", "internal/natstest", "internal/faulttest", "e2e/...",
	}},
	{"github.com/nats-io/...", []string{
		"internal/natsio", "internal/natsadmin", "internal/sessionstore", "internal/gc/gcnats", "internal/memjs", "internal/sim",
		"internal/natstest",
		"internal/faulttest", "internal/bench", "e2e/...", "tools/...",
	}},
	{"github.com/synadia-io/...", []string{"internal/natsio"}},
	{"github.com/modelcontextprotocol/...", []string{"internal/mcp", "cmd/spool"}},
}

// forbidden are standard packages that a layer must not import.
var forbidden = map[layer][]string{
	pure: {"net/...", "os/...", "syscall", "log/...", "flag", "runtime/...", "testing/...", "plugin"},
	// A logger is handed in; the environment is not.
	decide: {"net/...", "os/...", "syscall", "log", "flag", "testing/...", "plugin"},
	adapt:  {"flag", "testing/..."},
	wire:   {"testing/..."},
}

// except lists names of otherwise forbidden packages that one package may use, and no others of them.
var except = map[string]map[string][]string{
	"internal/transcript": {"os": {"Open", "Stat", "ReadDir"}}, // it reads files, through an fs.FS of the real ones
}

// timeless are packages above layer 0 that are given times and start nothing either: they decide over values.
var timeless = []string{"internal/apply"}

// clocks are functions of package time that a pure package must not use: it is given times.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
