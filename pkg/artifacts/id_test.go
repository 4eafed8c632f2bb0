package artifacts_test

import (
	"math/big"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spool/internal/must"
	"spool/pkg/artifacts"
)

func TestNewID(t *testing.T) {
	at := time.Date(2026, 11, 20, 13, 37, 59, 999, time.FixedZone("", 3600))
	id := artifacts.NewID(at, [10]byte{0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8})
	if want := regexp.MustCompile(`^art_20261120_123759_[0-9A-HJKMNP-TV-Z]{16}$`); !want.MatchString(string(id)) {
		t.Errorf("NewID = %s, want %s", id, want)
	}
	must.Same(t, artifacts.NewID(at, [10]byte{0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8}), id, "NewID of the same = %s, want %s")
	if other := artifacts.NewID(at, [10]byte{0xff, 0, 1, 2, 3, 4, 5, 6, 7, 9}); other == id {
		t.Errorf("NewID with other entropy = %s again", other)
	}
}

// TestCounterIsMaxPlusOne holds SPEC A1 with numbers of any length: what is taken is above all that was seen or taken.
func TestCounterIsMaxPlusOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c artifacts.Counter
		highest := big.NewInt(-1)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "see") {
				digits := rapid.StringMatching(`0{0,3}[0-9]{1,24}`).Draw(t, "digits")
				tool := rapid.SampledFrom([]string{".bash.log", "..log", ".a.b.log", ".log", ".md", "bash.log", ".x.txt"}).Draw(t, "rest")
				c.See(digits + tool)
				n, _ := new(big.Int).SetString(digits, 10)
				if counts := tool == ".bash.log" || tool == "..log" || tool == ".a.b.log"; counts && n.Cmp(highest) > 0 {
					highest = n
				}
				continue
			}
			highest = new(big.Int).Add(highest, big.NewInt(1))
			if got := c.Take(); string(got) != highest.String() {
				t.Fatalf("Take = %s, want %s", got, highest)
			}
			c = artifacts.Resume(c.Last())
		}
	})
}

func TestToolFile(t *testing.T) {
	long := "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	for tool, want := range map[string]string{
		"bash": "7.bash.log", "": "7.tool.log", "../../etc": "7._etc.log", "mcp/server/tool": "7.mcp_server_tool.log",
		"a \t b": "7.a_b.log", "é線": "7._.log", "__a__": "7.__a__.log", long: "7." + long[:64] + ".log", "a\x00b\xff": "7.a_b_.log",
	} {
		got := artifacts.ToolFile("7", tool)
		must.Same(t, got, want, "ToolFile(%q) = %q, want %q", tool)
		must.Is(t, artifacts.CheckFilename(got), nil, "CheckFilename(%q)", got)
	}
}
