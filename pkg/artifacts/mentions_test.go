package artifacts_test

import (
	"slices"
	"strings"
	"testing"

	"spool/pkg/artifacts"
	"spool/pkg/truncate"
)

func TestMentions(t *testing.T) {
	a, b := truncate.Ref([]byte("a")), truncate.Ref([]byte("b"))
	for text, want := range map[string][]string{
		`{"data":"` + a + `"}` + "\n" + b + "!" + a:            {a, b, a},
		strings.ToUpper(a):                                     {a},
		`{"broken ` + a:                                        {a},
		`"` + strings.Replace(a, ":", `\u003A`, 1) + `"`:       {a},
		`"` + strings.Replace(a, "bl", `\u0062\u006c`, 1) + "": {a},
		a + "0" + b:                         {b},
		a[:70]:                              nil,
		strings.Replace(a, "6:", "6:\n", 1): nil,
		"blob:sha256:" + a:                  {a},
		`\u00`:                              nil,
		`\u00e9` + a + `\u0`:                {a},
	} {
		if got := slices.Collect(artifacts.Mentions([]byte(text))); !slices.Equal(got, want) {
			t.Errorf("Mentions(%q) = %v, want %v", text, got, want)
		}
	}
	for range artifacts.Mentions([]byte(a + " " + b)) {
		break // stops without a panic
	}
}
