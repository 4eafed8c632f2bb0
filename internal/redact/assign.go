package redact

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// A value beside a name that says that it is secret: NAME=value, "name": "value", name: value, --name value,
// <name>value</name> and what else programs, shells and files of configuration have. What is beside such a name is
// often no secret: code that reads it, a variable, a placeholder, a type. So the value is judged (judge.go), the more
// strictly the more the place looks like code.

// secretNames are the ends of names, in lower case without signs, of values that are secret; true: of passwords, which
// need not look drawn.
var secretNames = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range strings.Fields(drawnNames) {
		names[name] = false
	}
	for _, name := range strings.Fields(passwordNames) {
		names[name] = true
	}
	return names
}()

const passwordNames = `
	password passwd passphrase passcode pwd pass storepass keypass sshpass dbpass psk credential credentials`

const drawnNames = `
	accesskey accesskeysecret accountkey adminkey apikey appkey applicationkey authkey cipherkey clientkey
	consumerkey cryptkey datakey deployerkey deploykey encryptionkey encryptkey functionskey hexkey hmackey
	identitytoken ingestkey integrationkey jwtkey licencekey licensekey masterkey presharedkey primarykey
	primarymasterkey privatekey rapidapikey refreshtoken restkey routingkey saslkey secondarykey secret
	secretaccesskey secretid secretkey secretkeybase serverkey servicekey servicerolekey sessionkeysecret sharedkey
	signingkey storagekey subscriptionkey token walletkey webhookkey writekey`

// harmless are ends of names that end like secret ones.
var harmless = regexp.MustCompile(`(?:next|page|continuation|continue|sync|cancell?ation|cancel|eos|bos|pad|unk|sep|cls|mask|` +
	`stop|start|end|special|prev|previous|current|last|first|resume|client|csrf|xsrf|crumb|max|num|total|input|output|` +
	`prompt|completion|idempotency|lock|fence|fencing|skip|image|publishable|delimiter)token$|bypass$|compass$|^oldpwd$`)

const (
	maxName  = 64
	maxValue = 4 << 10
	maxSpace = 24 // between a name, the sign behind it, and the value
)

// findAssigned is the detector "assignment". Its keywords are parts of names.
func findAssigned(text []byte, from, to int) []span {
	a, ok := nameAt(text, from, to)
	if !ok || !a.readSign() {
		return nil
	}
	password, ok := isSecretName(text[a.name.from:a.name.to])
	if !ok || !a.readValue() || !a.isSecret(password) {
		return nil
	}
	return []span{a.value}
}

// assignment is what is known of a place where a name may be given a value.
type assignment struct {
	text        []byte
	name, value span
	at          int  // behind what is read
	inQuotes    bool // the name is
	flag, shell bool // --name value; NAME=value
	quoted      bool // the value is
	markup      bool // <name>value
}

// nameAt reads the name around a keyword.
func nameAt(text []byte, from, to int) (a assignment, ok bool) {
	l, r := from, to
	for l > 0 && from-l < maxName && (isWord(text[l-1]) || text[l-1] == '-' || text[l-1] == '.') {
		l--
	}
	inName := func(at int) bool { return isWord(text[at]) || text[at] == '-' }
	for r < len(text) && r-to < maxName && (inName(r) || text[r] == '.' && r+1 < len(text) && isWord(text[r+1])) {
		r++
	}
	if l > 0 && text[l-1] == '\\' && l < from { // an escape ends in a letter
		l++
	}
	a = assignment{text: text, name: span{l, r}, at: r}
	a.flag = text[l] == '-'
	return a, r < len(text)
}

// isSecretName reports whether a name is of what is secret, and of a password.
func isSecretName(name []byte) (password, ok bool) {
	var b strings.Builder
	for _, c := range asciiLower(name) {
		if isLetter(c) || isDigit(c) {
			b.WriteByte(c)
		}
	}
	plain := strings.TrimRight(b.String(), "0123456789")
	for tries := 0; tries < 2; tries++ {
		for i := range plain {
			if password, ok = secretNames[plain[i:]]; ok {
				short := plain[i:] == "pass" || plain[i:] == "pwd"
				return password, (!short || i == 0 || shortName.Match(name)) && !harmless.MatchString(plain)
			}
		}
		i := slices.IndexFunc(nameTails, func(tail string) bool { return strings.HasSuffix(plain, tail) })
		if i < 0 {
			break
		}
		plain = strings.TrimRight(strings.TrimSuffix(plain, nameTails[i]), "0123456789")
	}
	return false, false
}

// nameTails may follow what makes a name a secret's.
var nameTails = []string{"base64", "base", "b64", "value", "prod", "production", "dev", "staging", "live", "new",
	"old", "plaintext", "plain",
	"text", "current", "primary", "secondary", "raw", "string", "str", "hex"}

var shortName = regexp.MustCompile(`(?i:[_.-])(?i:pass|pwd)[0-9]*$|[a-z](?:Pass|Pwd)$|^[A-Z]+(?:PASS|PWD)$`)

// readSign reads what stands between a name and its value.
func (a *assignment) readSign() bool {
	t, p := a.text, a.at
	for p < len(t) && p-a.at < 10 && strings.IndexByte("\"'`\\]", t[p]) >= 0 {
		p++
	}
	a.inQuotes = p > a.at
	if p >= len(t) {
		return false
	}
	tight := p
	p = a.skipSpace(p)
	if p >= len(t) {
		return false
	}
	if t[p] == '>' && a.name.from > 0 && t[a.name.from-1] == '<' {
		a.markup, a.at = true, p+1
		return true
	}
	member := valueMember.FindIndex(t[tight:min(len(t), tight+120)])
	switch c := t[p]; {
	case member != nil:
		p = tight + member[1]
	case c == '=' || c == ':':
		a.shell = c == '=' && p == tight && !a.inQuotes
		p++
		for p < len(t) && (t[p] == '=' || t[p] == '>' && c == '=') {
			p, a.shell = p+1, false
		}
		if c == ':' {
			if m := typeNote.FindIndex(t[p:min(len(t), p+80)]); m != nil {
				p += m[1] - 1
			}
		}
	case (c == '(' || c == ',' && a.inQuotes) && opensQuote(t, p+1):
		p++
	case a.flag && p > tight:
		a.shell = true
	default:
		var m []int
		if m = typeNote.FindIndex(t[tight:min(len(t), tight+80)]); m == nil || !opensQuote(t, tight+m[1]-1) {
			return false
		}
		p = tight + m[1] - 1
	}
	a.at = p
	return true
}

var (
	typeNote    = regexp.MustCompile(`^[ \t]*(?:&'static )?[A-Za-z_][\w.<>?\[\]*&]{0,40}[ \t]*=[ \t]*[^=>~]`)
	valueMember = regexp.MustCompile(`^["'\\,\s]+value["'\\]*[ \t]*[:=]`)
)

// opensQuote reports whether a string begins behind some space.
func opensQuote(t []byte, p int) bool {
	for p < len(t) && (t[p] == ' ' || t[p] == '\\') {
		p++
	}
	return p < len(t) && (t[p] == '"' || t[p] == '\'' || t[p] == '`')
}

func (a *assignment) skipSpace(p int) int {
	from := p
	for p < len(a.text) && p-from < maxSpace && (a.text[p] == ' ' || a.text[p] == '\t') {
		p++
	}
	return p
}

func (a *assignment) readValue() bool {
	t := a.text
	p := a.skipSpace(a.at)
	if p > a.at && !a.flag {
		a.shell = false
	}
	if m := blockSign.FindIndex(t[p:min(len(t), p+80)]); m != nil && !a.shell {
		p += m[1]
	}
	q := p
	if q+1 < len(t) && strings.IndexByte("rRbBfF@LuU$", t[q]) >= 0 && strings.IndexByte(`"'`, t[q+1]) >= 0 {
		q++
	}
	slashes := 0
	for q < len(t) && t[q] == '\\' && slashes < 8 {
		q, slashes = q+1, slashes+1
	}
	if q >= len(t) {
		return false
	}
	if c := t[q]; !a.markup && (c == '"' || c == '\'' || c == '`') {
		q++
		if q+1 < len(t) && t[q] == c && t[q+1] == c {
			q += 2
		}
		if end := endOfQuoted(t, q, c, slashes); end >= 0 {
			a.value, a.at, a.quoted = span{q, end}, end, true
			return true
		}
		p = q
	} else if slashes > 0 {
		return false
	}
	end := p
	for end < len(t) && end-p < maxValue && t[end] > ' ' && strings.IndexByte("\"'`<\\", t[end]) < 0 {
		end++
	}
	if a.shell && !a.flag && !a.startsLine() || !a.shell {
		if n := bytes.IndexAny(t[p:end], ";&"); n > 0 && !(t[p+n] == '&' && !a.shell && !isParameter(t[p+n:end])) {
			end = p + n
		}
	}
	a.at = end
	for end > p && strings.IndexByte(",;)}].", t[end-1]) >= 0 {
		end--
	}
	a.value = span{p, end}
	return end > p
}

var blockSign = regexp.MustCompile(`^[|>][-+]?[ \t]*\r?\n[ \t]+`)

// isParameter reports whether an & begins the next parameter of a URL.
func isParameter(v []byte) bool { return parameter.Match(v) }

var parameter = regexp.MustCompile(`^&[\w.\[\]-]+=`)

// endOfQuoted is where a string ends whose quote has so many backslashes before it; -1 if nowhere near.
func endOfQuoted(t []byte, from int, quote byte, slashes int) int {
	for i := from; i < len(t) && i-from < maxValue; i++ {
		switch t[i] {
		case '\n':
			return -1
		case quote:
			n := 0
			for i-n-1 >= from && t[i-n-1] == '\\' {
				n++
			}
			if n <= slashes {
				return i - n
			}
		}
	}
	return -1
}

// startsLine reports whether the name is the first word of its line, or what a shell takes for its begin.
func (a *assignment) startsLine() bool {
	from := max(0, a.name.from-40)
	return lineStart.Match(a.text[from:a.name.from])
}

var lineStart = regexp.MustCompile(`(?:^|\n|["'` + "`" + `])[ \t+\-|>0-9:→]*(?:(?:export|set|env|ENV|ARG|-e|--env` +
	`|--build-arg|setx|declare -x|\$env:)[ \t]*)*$`)

// oneOfSeveral reports whether the name and its value are one of several, in an address or in what says how to connect.
func (a *assignment) oneOfSeveral() bool {
	before, v := a.text[max(0, a.name.from-2):a.name.from], a.text[a.value.from:a.value.to]
	return a.shell && besideOthers.Match(before) && !dotted.Match(v)
}

var besideOthers = regexp.MustCompile(`[;&?] ?$`)

// endsLine reports whether nothing but a comment comes behind the value in its line, or in the string that it is in.
func (a *assignment) endsLine() bool { return lineEnd.Match(a.text[a.at:min(len(a.text), a.at+40)]) }

var lineEnd = regexp.MustCompile(`^(?:["'` + "`" + `\\]|[ \t]*(?:$|[\r\n]|#|//|\|))`)

// isSecret judges the value.
func (a *assignment) isSecret(password bool) bool {
	v := a.text[a.value.from:a.value.to]
	least := 12
	if password {
		least = 8
	}
	if len(v) < least || isReference(v) || isCommon(v) || isName(v) || isKeyID(v) {
		return false
	}
	upper := bytes.Equal(a.text[a.name.from:a.name.to], bytes.ToUpper(a.text[a.name.from:a.name.to]))
	// No code stands there.
	told := a.quoted || a.markup || a.flag || a.shell && (upper || a.startsLine() && a.endsLine())
	if a.quoted && bytes.ContainsAny(v, " \t{}") || bytes.IndexByte(v, '(') >= 0 && !told {
		return false
	}
	if password && told {
		return isPassword(v) && !(a.shell && dotted.Match(v))
	}
	if !isRandom(v) {
		return false
	}
	if told || a.endsLine() || a.oneOfSeveral() {
		return true
	}
	return len(v) >= 16 && !dotted.Match(v) && entropy(v) > 3.2
}

// dotted is a member of something, as code names it.
var dotted = regexp.MustCompile(`^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?:$|[,;|)&?])|\[`)

// isPassword reports whether a value may be what a person chose: letters, and digits or signs among or behind them.
func isPassword(v []byte) bool {
	letters, others := false, false
	for _, c := range v {
		letters = letters || isLetter(c)
		others = others || isDigit(c) || strings.IndexByte("!@#%^&*+?~$", c) >= 0
	}
	return letters && others && !slices.Contains(v, ' ')
}

// isKeyID reports whether a value names a key of GnuPG.
func isKeyID(v []byte) bool { return keyID.Match(v) }

var keyID = regexp.MustCompile(`^(?:0x)?(?:[0-9A-F]{16}|[0-9A-F]{40})$`)
