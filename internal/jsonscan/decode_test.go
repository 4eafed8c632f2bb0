package jsonscan_test

import (
	"strings"
	"testing"

	"spool/internal/jsonscan"
)

// Nothing of Go is in what a person is told of JSON.
func TestDecodeIsPlain(t *testing.T) {
	for in, want := range map[string]string{
		`{"entry":1}`:                 `entry: want a string, not a number`,
		`{"of":{"n":"x"}}`:            `of.n: want a whole number, not a string`,
		`{"of":{"n":1.5}}`:            `of.n: want a whole number, not 1.5`,
		`{"of":{"u":-1}}`:             `of.u: want a whole number that is not negative, not -1`,
		`{"of":[]}`:                   `of: want an object, not a list`,
		`{"list":{}}`:                 `list: want a list, not an object`,
		`{"yes":"x"}`:                 `yes: want true or false, not a string`,
		`{"bytes":"!"}`:               `want base64, with padding`,
		`{"bytes":true}`:              `bytes: want a string of base64, not true or false`,
		`[]`:                          `want an object, not a list`,
		`{"nope":1}`:                  `"nope": no such member: there are entry, of, of.n, of.u, list, yes, bytes`,
		`{"of":{"nope":1}}`:           `"nope": no such member`,
		`{"entry"`:                    `it ends too early`,
		`{"entry":}`:                  `invalid JSON at byte 10: invalid character '}'`,
		``:                            `there is nothing`,
		`{"entry":"x"} {}`:            `nothing behind it`,
		`{"entry":"x","of":{"n":-3}}`: "",
	} {
		var v struct {
			Entry string `json:"entry"`
			Of    *struct {
				N int  `json:"n"`
				U uint `json:"u"`
			} `json:"of"`
			List  []string `json:"list"`
			Yes   bool     `json:"yes"`
			Bytes []byte   `json:"bytes"`
		}
		err := jsonscan.DecodeExactly(strings.NewReader(in), &v)
		if (want == "") != (err == nil) ||
			err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "json:")) {
			t.Errorf("%s = %v, want %q", in, err, want)
		}
	}
}
