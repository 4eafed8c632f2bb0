package redact

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// checks are what a rule can name to have its finds judged.
var checks = map[string]func(value []byte) bool{
	"literal":     func(v []byte) bool { return !isReference(v) && !isCommon(v) },
	"random":      func(v []byte) bool { return !isReference(v) && isRandom(v) },
	"userpass64":  holdsUserAndPassword,
	"privatekey":  func(v []byte) bool { return bytes.Contains(decode64(v), []byte("PRIVATE KEY")) },
	"cookie":      isSessionCookie,
	"netpassword": func(v []byte) bool { return !isReference(v) && !isCommon(v) && !bytes.ContainsAny(v, "()[]|") },
}

// isReference reports whether a value only stands for a secret that is elsewhere, or for none: a variable, a template,
// a path, an address, a place to be filled in.
func isReference(v []byte) bool {
	if len(v) == 0 {
		return true
	}
	lower := bytes.ToLower(v)
	if v[0] == '/' && bytes.ContainsAny(v, "+=") {
		return false // base64
	}
	return references.Match(lower) || placeholders.Match(lower)
}

var (
	references = regexp.MustCompile(`^(?:` +
		`\$[a-z_{(]|%[a-z_]+%|%[({]?[a-z_]*[)}]?[sdvq]$|%\(|<|\{|\[redacted|![a-z]+(?:[ :]|$)|[*&][a-z_][a-z0-9_.]*$|@[a-z]+\.` +
		`|#\{` + // variables and templates
		`|/|\./|\.\./|~/|[a-z]:\\|[a-z][a-z0-9+.-]{1,20}://` + // paths and addresses
		`|(?:arn|vault|enc|sha1|sha256|sha384|sha512|md5|file|env|aws|ssm|gcp|keyring|kms|ref|secretsmanager|from` +
		`|data|urn):` +
		`|ref\+|enc\[|projects/|secrets?[./]|(?:var|local|module|config|settings|self|this|os|sys|process|import` +
		`|req|request|ctx|args|opts|options|params|props|env|cfg|conf|app|user|data|state|match|matches|result` +
		`|response|res|body|input|event|form|values|creds|credentials)\.[a-z_]` +
		`|v?[0-9]+(?:\.[0-9]+)+(?:[-+.a-z0-9]*)$|[0-9]{4}-[0-9]{2}-[0-9]{2}[t ]?` + // versions, times
		`)`)
	placeholders = regexp.MustCompile(`example|placeholder|change[-_ ]?me|change[-_]?this|redacted|xxxx|\*\*\*` +
		`|dummy|replace[-_]|` +
		`insert[-_ ]|your[-_ ]|^your|fake|sample|^my[-_]?(?:pass|secret|token|key|api|super)` +
		`|not[-_ ]?a[-_ ]?real[-_ ]|\.\.\.|…|todo|` +
		`\$\{|\$\(|\{\{|<[a-z_ -]+>|process\.env|environ|getenv|abcdef012345|0123456789abcdef|1234567890abcdef|` +
		`\.(?:json|ya?ml|toml|txt|pem|key|crt|env|md|go|py|js|ts|rb|rs|java|sh|html?|css|sql|lock)$`)
)

// isCommon reports whether a value without its digits and signs is a word that examples and tests use, or no word at
// all.
func isCommon(v []byte) bool {
	var letters []byte
	for _, c := range asciiLower(v) {
		if isLetter(c) || c >= utf8.RuneSelf {
			letters = append(letters, c)
		}
	}
	_, found := slices.BinarySearch(common, string(letters))
	return found || len(letters) == 0
}

var common = func() []string {
	words := strings.Fields(`a aa aaa ab abc abcd abcde abcdef abcdefg abcdefgh abcdefghijklmnop access
		admin administrator adminadmin
		alice anonymous api apikey auth authtoken bar bearer baz bob boolean changeit client clientid
		clientsecret correct credential
		credentials db dbpass dbpassword default demo dev development disabled email empty enabled expired
		false foo foobar guest hello
		helloworld hidden hunter incorrect int integer invalid key lamp letmein local localhost login lorem
		master masked minio
		minioadmin mongo mongodb mysql neo newpass newpassword nil no none null number off oldpassword on
		optional p pass passw passwd
		passwdhash password passwordhash passwordpassword phrase placeholder postgres postgresql prod public
		pw pwd qwe qwer qwerty
		qwertyuiop rabbitmq redis redispass replace required root rootpass rootpassword rootroot s sa secret
		secretkey secretpassword
		secrets secretsecret secrettoken shh some somepassword somesecret staging str string sup super
		supersecret superuser t test
		tester testing testkey testpass testpassword testsecret testtest testtoken testuser text tok token
		tokens toor true type u
		undefined unknown unused user username userpass value wrong wrongpass wrongpassword x xx xxx y yes
		yourpassword`)
	slices.Sort(words)
	return words
}()

// isRandom reports whether a value looks drawn: digits stand among its letters, and not only at the ends of words as in
// the names that people give. A long one without digits must change between cases as no name does.
func isRandom(v []byte) bool {
	v = techWords.ReplaceAll(v, []byte("_"))
	digits, letters, runs, flips := 0, 0, 0, 0
	names := true // every word is letters, then digits
	var seen [256]bool
	kinds, last := 0, byte(0)
	for i, c := range v {
		if !seen[c] {
			seen[c], kinds = true, kinds+1
		}
		switch {
		case isDigit(c):
			digits++
			if !isDigit(last) {
				runs++
			}
		case isLetter(c):
			letters++
			names = names && !isDigit(last)
			if i > 0 && isLetter(last) && last&0x20 != c&0x20 {
				flips++
			}
		}
		last = c
	}
	switch {
	case kinds < 6 || letters == 0:
		return false
	case digits == 0:
		return len(v) >= 20 && flips*8 > 3*len(v)
	case names && runs < 3:
		return len(v) >= 20 && flips*3 > len(v)
	}
	return true
}

// techWords are names with digits, of formats and algorithms; those of one letter only where a word begins.
// techWords are names with digits, of formats and algorithms; those of one letter only where a word begins.
var techWords = regexp.MustCompile(`(?i)(?:(?:sha|md|rs|hs|aes|utf|base|oauth|http|ipv|uint|float|rsa)|(?:^|[^0-9a-z])` +
	`(?:es|ps|ed|x|int|p|k|s|ec|b|h|e|i|l|v))(?:[0-9]{1,2}|16|256|384|512|1024|2048|4096|25519|509)(?:[^0-9]|$)`)

// isName reports whether a value is words in lower case with signs between them, as names of resources are.
func isName(v []byte) bool { return nameOfWords.Match(v) }

var nameOfWords = regexp.MustCompile(`^(?:[a-z]+|[0-9]{1,8}|[a-z]+[0-9]{1,3})(?:[-_./:|, ]+(?:[a-z]+|[0-9]{1,8}` +
	`|[a-z]+[0-9]{1,3}))+$`)

// decode64 reads base64 of any kind, as far as it goes.
func decode64(v []byte) []byte {
	v = bytes.TrimRight(bytes.ReplaceAll(v, []byte(`\`), nil), "=")
	v = bytes.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, v)
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(v)))
	n, _ := base64.RawStdEncoding.Decode(out, v)
	return out[:n]
}

// holdsUserAndPassword reports whether a value is base64 of user:password.
func holdsUserAndPassword(v []byte) bool {
	plain := decode64(v)
	user, password, found := bytes.Cut(plain, []byte(":"))
	if !found || len(password) < 3 || isReference(password) || isCommon(user) && isCommon(password) {
		return false
	}
	return !slices.ContainsFunc(plain, func(c byte) bool { return c < ' ' || c == 0x7f })
}

// isSessionCookie reports whether one of some cookies is a session's.
func isSessionCookie(v []byte) bool {
	for pair := range bytes.SplitSeq(v, []byte(";")) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(pair), []byte("="))
		if len(value) >= 12 && sessionNames.Match(name) && isRandom(value) && !isReference(value) {
			return true
		}
	}
	return false
}

var sessionNames = regexp.MustCompile(`(?i)sess|sid$|auth|token|jwt|remember|login|identity`)
