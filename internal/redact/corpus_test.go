package redact_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// kind is a kind of secret: how one is made, and where it stands. No secret is anybody's, and none stands in this file:
// they are put together when the test runs.
type kind struct {
	name   string
	make   func(g *maker) string
	places []string // %s is the secret; none: wherever a token may stand
}

// everywhere are the places of a token that says what it is.
var everywhere = []string{"%s", "the key is %s, keep it", "export SERVICE_VALUE=%s", "value: %s", `{"v": "%s"}`,
	"\x1b[32m%s\x1b[0m"}

// maker makes secrets, the same in each run.
type maker struct{ *rand.Rand }

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
	hexes  = "0123456789abcdef"
	alnum  = upper + lower + digits
	base32 = upper + "234567"
	words  = alnum + "_-"
	base   = alnum + "+/"
)

func (g *maker) of(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[g.IntN(len(alphabet))]
	}
	if n >= 8 && strings.Contains(alphabet, digits) && strings.Contains(alphabet,
		"a") { // as nearly every drawn one has
		b[2], b[n/2], b[n-2] = digits[g.IntN(10)], "abcdef"[g.IntN(6)], digits[g.IntN(10)]
	}
	return string(b)
}

func (g *maker) uuid() string {
	return g.of(hexes, 8) + "-" + g.of(hexes, 4) + "-4" + g.of(hexes, 3) + "-a" + g.of(hexes, 3) + "-" + g.of(hexes, 12)
}

func (g *maker) lines(n, width int) string {
	var b strings.Builder
	for range n {
		b.WriteString(g.of(base, width) + "\n")
	}
	return b.String()
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// begins is a kind of tokens that begin with some letters.
func begins(name, alphabet string, n int, prefix ...string) kind {
	return kind{name: name, make: func(g *maker) string { return strings.Join(prefix, "") + g.of(alphabet, n) }}
}

// beside is a kind of drawn values that only their places tell.
func besides(name, alphabet string, n int, places ...string) kind {
	return kind{name: name, make: func(g *maker) string { return g.of(alphabet, n) }, places: places}
}

// chosen is a kind of passwords as people choose them.
func chosen(name string, places ...string) kind {
	return kind{name: name, make: func(g *maker) string {
		return "Tr0ub" + g.of(digits, 2) + "dor" + g.of(lower, 4) + "!" + g.of(digits, 2)
	}, places: places}
}

func pem(what string) kind {
	return kind{name: "pem " + what, make: func(g *maker) string { return g.lines(8, 64) }, places: []string{
		"-----BEGIN " + what + "PRIV" + "ATE KEY-----\n%s-----END " + what + "PRIV" + "ATE KEY-----"}}
}

var kinds = append(tokens, named...)

var tokens = []kind{
	pem(""), pem("RSA "), pem("EC "), pem("DSA "), pem("OPENSSH "), pem("ENCRYPTED "),
	{"pgp block", func(g *maker) string { return g.lines(8, 64) }, []string{
		"-----BEGIN PGP PRIV" + "ATE KEY BLOCK-----\n\n%s=a1b2\n-----END PGP PRIV" + "ATE KEY BLOCK-----"}},
	{"pem that is cut", func(g *maker) string { return g.lines(5, 64) },
		[]string{"-----BEGIN RSA PRIV" + "ATE KEY-----\n%s\n"}},
	{"pem of one line", func(g *maker) string { return g.of(base, 120) }, []string{
		"KEY=\"-----BEGIN PRIV" + "ATE KEY-----\\n%s\\n-----END PRIV" + "ATE KEY-----\\n\""}},
	{"pem in base64", func(g *maker) string {
		return b64("-----BEGIN EC PRIV" + "ATE KEY-----\n" + g.lines(3, 64) + "-----END EC PRIV" + "ATE KEY-----\n")
	}, []string{"    client-key-data: %s", `"client-key-data": "%s"`, "%s"}},
	{"putty", func(g *maker) string { return g.lines(4, 64) },
		[]string{"Comment: rsa-key\nPrivate-Lines: 4\n%sPrivate-MAC: 00"}},
	{"jwk", func(g *maker) string { return g.of(words, 43) }, []string{
		`{"kty":"EC","crv":"P-256","x":"abc","d":"%s"}`}},
	{"jwk that begins with d (before what tells)", func(g *maker) string { return g.of(words, 43) }, []string{
		`{"d": "%s", "kty": "OKP"}`}},
	begins("age", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58, "AGE-SEC", "RET-KEY-1"),
	begins("nkey user", base32, 56, "S", "U"), begins("nkey account", base32, 56, "S", "A"),
	{"jwt", func(g *maker) string {
		return strings.TrimRight(b64(`{"alg":"HS256","typ":"JWT"}`),
			"=") + "." + strings.TrimRight(b64(`{"sub":"`+g.of(alnum, 12)+`"}`), "=") + "." + g.of(words, 43)
	}, nil},
	begins("aws access key", base32, 16, "AK", "IA"), begins("aws temporary key", base32, 16, "AS", "IA"),
	begins("aws session token", base, 200, "IQoJ", "b3JpZ2lu"), begins("aws bedrock", base, 120, "AB", "SKQmVk"),
	{"aws mws", func(g *maker) string { return "amzn." + "mws." + g.uuid() }, nil},
	begins("google api", words, 35, "AI", "za"), begins("google client secret", words, 28, "GOC", "SPX-"),
	begins("google access token", words, 80, "ya", "29."), begins("google refresh token", words, 60, "1/", "/0"),
	begins("google hmac", base32, 56, "GO", "OG1"), begins("firebase", words, 140, "AAAA", "k3J9x2M", ":"),
	{"azure function key", func(g *maker) string { return g.of(words, 44) + "Az" + "Fu" + g.of(alnum, 6) + "==" },
		[]string{"%s", "key: %s"}},
	{"azure client secret", func(g *maker) string { return g.of(alnum, 3) + "8" + "Q~" + g.of(alnum, 34) }, nil},
	{"azure devops", func(g *maker) string { return g.of(alnum, 76) + "AZ" + "DO" + g.of(alnum, 4) }, nil},
	begins("github classic", alnum, 36, "gh", "p_"), begins("github oauth", alnum, 36, "gh", "o_"),
	begins("github app", alnum, 36, "gh", "s_"), begins("github refresh", alnum, 76, "gh", "r_"),
	begins("github fine-grained", alnum, 82, "github", "_pat_"),
	begins("gitlab personal", alnum, 20, "gl", "pat-"), begins("gitlab runner", alnum, 20, "gl", "rt-"),
	begins("gitlab deploy", alnum, 20, "gl", "dt-"), begins("gitlab registration", alnum, 20, "GR1", "348941"),
	begins("atlassian", words, 180, "ATA", "TT3xFfGF0"), begins("bitbucket", alnum, 32, "AT", "BB"),
	begins("anthropic api", words, 95, "sk-", "ant-api03-"), begins("anthropic oauth", words, 95, "sk-", "ant-oat01-"),
	{"openai project", func(g *maker) string {
		return "sk-" + "proj-" + g.of(words, 74) + "T3Bl" + "bkFJ" + g.of(words, 74)
	}, nil},
	{"openai old", func(g *maker) string { return "sk-" + g.of(alnum, 20) + "T3Bl" + "bkFJ" + g.of(alnum, 20) }, nil},
	begins("deepseek", hexes, 32, "sk", "-"), begins("openrouter", hexes, 64, "sk-", "or-v1-"),
	{"langfuse", func(g *maker) string { return "sk-" + "lf-" + g.uuid() }, nil},
	{"langsmith", func(g *maker) string { return "lsv2" + "_pt_" + g.of(hexes, 32) + "_" + g.of(hexes, 10) }, nil},
	begins("groq", alnum, 52, "gs", "k_"), begins("xai", alnum, 80, "xa", "i-"), begins("perplexity", alnum, 48, "pp",
		"lx-"),
	begins("replicate", alnum, 37, "r", "8_"), begins("nvidia", words, 64, "nva", "pi-"), begins("tavily", alnum, 32,
		"tv", "ly-dev-"),
	{"pinecone", func(g *maker) string { return "pc" + "sk_" + g.of(alnum, 6) + "_" + g.of(alnum, 63) }, nil},
	begins("firecrawl", hexes, 32, "f", "c-"), begins("e2b", hexes, 40, "e2", "b_"), begins("jina", alnum, 60, "ji",
		"na_"),
	begins("cerebras", lower+digits, 48, "cs", "k-"), begins("together", words, 43, "tgp", "_v1_"),
	begins("elevenlabs", hexes, 48, "s", "k_"),
	begins("hugging face", upper+lower, 34, "h", "f_"), begins("weights and biases", alnum, 60, "wan", "db_v1_"),
	{"slack bot", func(g *maker) string {
		return "xo" + "xb-" + g.of(digits, 12) + "-" + g.of(digits, 12) + "-" + g.of(alnum, 24)
	}, nil},
	{"slack app", func(g *maker) string {
		return "xa" + "pp-1-A" + g.of(upper, 9) + "-" + g.of(digits, 12) + "-" + g.of(hexes, 64)
	}, nil},
	begins("slack cookie", alnum, 120, "xo", "xd-"),
	{"slack webhook", func(g *maker) string {
		return "T" + g.of(upper, 8) + "/B" + g.of(upper, 8) + "/" + g.of(alnum,
			24)
	}, []string{
		"curl https://hooks.slack" + ".com/services/%s", "url: https://hooks.slack" + ".com/services/%s"}},
	{"discord bot", func(g *maker) string {
		return "MT" + g.of(alnum, 24) + "." + g.of(alnum, 6) + "." + g.of(words,
			38)
	}, nil},
	{"discord webhook", func(g *maker) string { return g.of(words, 68) },
		[]string{"https://discord" + ".com/api/webhooks/112233445566778899/%s"}},
	{"teams webhook", func(g *maker) string {
		return g.uuid() + "@" + g.uuid() + "/IncomingWebhook/" + g.of(hexes, 32) + "/" + g.uuid()
	}, []string{"https://corp.webhook.office" + ".com/webhookb2/%s"}},
	{"telegram bot", func(g *maker) string { return "7" + g.of(digits, 9) + ":A" + "A" + g.of(words, 33) }, []string{
		"https://api.telegram.org/bot%s/getMe", "TELEGRAM=%s", "token is %s"}},
	begins("stripe live", alnum, 24, "sk_", "live_"), begins("stripe test", alnum, 24, "sk_", "test_"),
	begins("stripe organization", alnum, 40, "sk_", "org_live_"),
	begins("stripe restricted", alnum, 24, "rk_", "live_"), begins("stripe webhook", alnum, 32, "wh", "sec_"),
	begins("square", words, 22, "sq0", "atp-"),
	{"braintree", func(g *maker) string {
		return "access_token" + "$production$" + g.of(lower+digits, 16) + "$" + g.of(hexes, 32)
	}, nil},
	{"plaid", func(g *maker) string { return "access-" + "sandbox-" + g.uuid() }, nil}, begins("flutterwave", alnum,
		32, "FLW", "SECK-"),
	begins("shopify", hexes, 32, "shp", "at_"), begins("shopify secret", hexes, 32, "shp", "ss_"), begins("shippo",
		hexes, 40, "ship", "po_live_"),
	begins("easypost", alnum, 54, "EZ", "AK"), begins("duffel", words, 43, "duf", "fel_live_"),
	begins("npm", alnum, 36, "np", "m_"), begins("pypi", words, 70, "py", "pi-AgEIcHlwaS5vcmc"), begins("rubygems",
		hexes, 48, "ruby", "gems_"),
	begins("crates", alnum, 32, "ci", "o"), begins("nuget", lower+digits, 43, "oy", "2"), begins("clojars",
		lower+digits, 60, "CLO", "JARS_"),
	begins("docker hub", words, 27, "dckr", "_pat_"), begins("artifactory", alnum, 69, "AK", "Cp"),
	begins("digitalocean", hexes, 64, "dop", "_v1_"), begins("heroku", words, 60, "HR", "KU-AA"), begins("fly", words,
		43, "fo", "1_"),
	begins("netlify", alnum, 36, "nf", "p_"), begins("vercel", alnum, 56, "vc", "p_"), begins("render", alnum, 32,
		"rn", "d_"),
	{"cloudflare origin", func(g *maker) string { return "v1" + ".0-" + g.of(hexes, 24) + "-" + g.of(hexes, 146) },
		nil},
	begins("supabase", hexes, 40, "sb", "p_"), begins("planetscale", words, 43, "psc", "ale_tkn_"), begins("neon",
		lower+digits, 64, "na", "pi_"),
	begins("databricks", hexes, 32, "da", "pi"), begins("vault", alnum, 90, "hv", "s."), begins("vault batch", alnum,
		120, "hv", "b."),
	{"terraform", func(g *maker) string { return g.of(alnum, 14) + ".atl" + "asv1." + g.of(alnum, 67) }, nil},
	begins("doppler", alnum, 43, "dp", ".pt."), begins("1password service", alnum, 200, "ops", "_eyJ"),
	{"tailscale", func(g *maker) string { return "ts" + "key-auth-" + g.of(alnum, 17) + "-" + g.of(alnum, 32) }, nil},
	{"snyk", func(g *maker) string { return "sny" + "k_uat." + g.of(hexes, 8) + "." + g.of(words, 80) }, nil},
	begins("pulumi", hexes, 40, "pu", "l-"), begins("buildkite", hexes, 40, "bk", "ua_"),
	{"circleci", func(g *maker) string { return "CCI" + "PAT_" + g.of(alnum, 22) + "_" + g.of(hexes, 40) }, nil},
	begins("sonarqube", hexes, 40, "sq", "p_"), begins("sentry", hexes, 64, "sn", "tryu_"),
	{"grafana", func(g *maker) string { return "gl" + "sa_" + g.of(alnum, 32) + "_" + g.of(hexes, 8) }, nil},
	begins("new relic", upper+digits, 27, "NR", "AK-"),
	{"new relic license", func(g *maker) string { return g.of(hexes, 36) + "NR" + "AL" }, nil},
	{"dynatrace", func(g *maker) string { return "dt0" + "c01." + g.of(base32, 24) + "." + g.of(base32, 64) }, nil},
	begins("elastic", alnum, 60, "es", "su_"), begins("posthog", alnum, 43, "ph", "x_"),
	{"launchdarkly", func(g *maker) string { return "sd" + "k-" + g.uuid() }, nil},
	{"postman", func(g *maker) string { return "PM" + "AK-" + g.of(hexes, 24) + "-" + g.of(hexes, 34) }, nil},
	begins("linear", alnum, 40, "lin", "_api_"), begins("notion", alnum, 43, "sec", "ret_"), begins("figma", words,
		40, "fi", "gd_"),
	{"asana", func(g *maker) string { return "1" + "/" + g.of(digits, 16) + ":" + g.of(hexes, 32) }, nil},
	{"airtable", func(g *maker) string { return "pa" + "t" + g.of(alnum, 14) + "." + g.of(hexes, 64) }, nil},
	begins("typeform", words, 44, "tf", "p_"), begins("contentful", words, 43, "CF", "PAT-"), begins("readme",
		lower+digits, 70, "rd", "me_"),
	{"hubspot", func(g *maker) string { return "pat" + "-na1-" + g.uuid() }, nil},
	{"salesforce", func(g *maker) string { return "00" + "D" + g.of(alnum, 12) + "!" + g.of(alnum, 96) }, nil},
	{"sendgrid", func(g *maker) string { return "S" + "G." + g.of(words, 22) + "." + g.of(words, 43) }, nil},
	{"brevo", func(g *maker) string { return "xkey" + "sib-" + g.of(hexes, 64) + "-" + g.of(alnum, 16) }, nil},
	{"resend", func(g *maker) string { return "r" + "e_" + g.of(alnum, 8) + "_" + g.of(alnum, 24) }, nil},
	begins("mailgun", hexes, 32, "ke", "y-"),
	{"mailchimp", func(g *maker) string { return g.of(hexes, 32) + "-u" + "s14" }, nil},
	begins("twilio api key", hexes, 32, "S", "K"), begins("facebook", alnum, 180, "EA", "A"), begins("instagram",
		alnum, 150, "IG", "QV"),
	begins("twitter bearer", alnum, 90, strings.Repeat("A", 21)), begins("dropbox", words, 140, "s", "l."),
	begins("prefect", alnum, 36, "pn", "u_"), begins("infracost", alnum, 32, "ic", "o-"),
	begins("scalingo", words, 48, "tk", "-us-"), begins("frame.io", words, 64, "fi", "o-u-"), begins("adobe", words,
		32, "p8", "e-"),
	begins("alibaba", alnum, 20, "LT", "AI"), begins("tencent", alnum, 32, "AK", "ID"), begins("yandex", words, 36,
		"AQ", "VN"),
	begins("mongodb atlas", words, 40, "mdb", "_sa_sk_"), begins("sourcegraph", hexes, 40, "sg", "p_"),
	{"mapbox", func(g *maker) string { return "s" + "k.eyJ" + g.of(alnum, 60) + "." + g.of(words, 22) }, nil},
	{"bcrypt", func(g *maker) string { return "$2" + "b$12$" + g.of(alnum, 53) }, []string{"app:%s:1", "hash %s",
		"hash: '%s'"}},
	{"argon2", func(g *maker) string {
		return "$arg" + "on2id$v=19$m=65536,t=3,p=4$" + g.of(alnum, 22) + "$" + g.of(alnum, 43)
	}, []string{"%s", "hash: %s"}},
	{"shadow", func(g *maker) string { return "$" + "6$" + g.of(alnum, 8) + "$" + g.of(alnum, 86) },
		[]string{"root:%s:19000:0:99999:7:::"}},
}

// named are what only its place makes a secret.
var named = []kind{
	chosen("dotenv password", "DB_PASSWORD=%s", "export DB_PASSWORD=%s", "DB_PASSWORD=\"%s\"", "DB_PASSWORD='%s'",
		"APP_DB_PASS=%s"),
	{"letters and digits in dotenv", func(g *maker) string { return "Not" + "TheReal" + "Word" + g.of(digits, 2) },
		[]string{"DB_PASSWORD=%s"}},
	chosen("yaml password", "password: %s", "db_password: \"%s\"", "  password: '%s'  # local", "passwd: >-\n    %s"),
	chosen("json password", `{"password": "%s"}`, `{"user":"a","dbPassword":"%s","x":1}`),
	chosen("toml password", `password = "%s"`, `[db]\npassword = '%s'`), chosen("ini password",
		"[client]\npassword = %s\nhost = db"),
	chosen("properties", "spring.datasource.password=%s"), chosen("xml", "<password>%s</password>",
		`<db password="%s"/>`),
	chosen("app setting", `<add key="DbPassword" value="%s" />`), chosen("env of a pod",
		"- name: DB_PASSWORD\n  value: %s"),
	chosen("env of a pod in json", `{"name": "DB_PASSWORD", "value": "%s"}`),
	{"connection string, a short password", func(g *maker) string { return g.of(alnum, 6) + "4" + g.of(alnum, 4) + "z2x" }, []string{
		"Server=db;Database=x;User Id=sa;Password=%s;Encrypt=true", "Server=db; User Id=sa; Password=%s; Encrypt=true",
		"jdbc:mysql://db/app?user=root&password=%s&ssl=true", "jdbc:sqlserver://db;user=sa;password=%s;encrypt=true"}},
	chosen("connection string", "Server=db;Database=x;User Id=sa;Password=%s;Encrypt=true", "Uid=app;Pwd=%s;"),
	chosen("go constant", `const dbPassword = "%s"`, `const dbPassword string = "%s"`, `password := "%s"`),
	chosen("python", `DATABASE = {"PASSWORD": "%s"}`, `password="%s",`, `conn = connect(user="u", password='%s')`),
	chosen("typescript", `const password: string = "%s";`, `password: "%s",`), chosen("java",
		`String password = "%s";`, `.setPassword("%s")`),
	chosen("ruby", `:password => "%s"`, `password: '%s'`), chosen("php", `define('DB_PASSWORD', '%s');`,
		`'password' => '%s',`),
	chosen("rust", `let password: &'static str = "%s";`), chosen("passphrase", "passphrase: %s", "--passphrase %s"),
	besides("api secret", alnum, 32, "API_SECRET=%s", "api_secret: %s", `"apiSecret": "%s"`),
	besides("api key", alnum, 32, "API_KEY=%s", "api_key = %s", `"api_key":"%s"`, "X-Api-Key: %s",
		"curl -H 'X-API-Key: %s' https://x", "https://x.dev/?api_key=%s&y=1"),
	besides("client secret", alnum, 40, "client_secret=%s", `"client_secret": "%s"`,
		"grant_type=a&client_secret=%s&x=1"),
	besides("access token", alnum, 40, `{"access_token":"%s","expires_in":3600}`, "access_token=%s",
		"#access_token=%s&state=1"),
	besides("refresh token", words, 60, `"refresh_token": "%s"`), besides("auth token in npmrc", hexes, 36,
		"//npm.x.dev/:_authToken=%s"),
	besides("bot token", alnum, 50, "BOT_TOKEN=%s", "token: %s"), besides("secret key base", hexes, 128,
		"secret_key_base: %s", "SECRET_KEY_BASE=%s"),
	besides("django secret", alnum+"!@#%^&*", 50, "SECRET_KEY = '%s'"), besides("webhook secret", alnum, 32,
		"WEBHOOK_SECRET=%s"),
	besides("encryption key", base, 43, "ENCRYPTION_KEY=%s="), besides("signing key", alnum, 48, "JWT_SIGNING_KEY=%s",
		`"signingKey": "%s"`),
	besides("aws secret", base, 40, "AWS_SECRET_ACCESS_KEY=%s", "aws_secret_access_key = %s",
		`"SecretAccessKey": "%s"`, `<SecretAccessKey>%s</SecretAccessKey>`),
	besides("aws session", base, 200, "AWS_SESSION_TOKEN=%s", `"SessionToken": "%s"`),
	besides("azure storage", base, 86,
		"DefaultEndpointsProtocol=https;AccountName=x;AccountKey=%s==;EndpointSuffix=core"),
	besides("azure service bus", base, 43, "Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey=%s="),
	besides("azure primary key", base, 86, `"primaryKey": "%s=="`), besides("azure signature", alnum, 43,
		"https://x.blob.core/a?sv=2024-01-01&sr=b&sig=%s%%3D"),
	besides("aws presigned", hexes, 64, "https://b.s3.x/k?X-Amz-Date=1&X-Amz-Signature=%s"),
	besides("google signed", hexes, 512, "https://storage.x/o?X-Goog-Date=1&X-Goog-Signature=%s"),
	besides("vault by name", alnum, 26, "VAULT_TOKEN=s.%s"), besides("datadog", hexes, 32, "DD_API_KEY=%s",
		"dd-api-key: %s"),
	besides("twilio auth", hexes, 32, "TWILIO_AUTH_TOKEN=%s"), besides("cloudflare by name", words, 40,
		"CLOUDFLARE_API_TOKEN=%s"),
	besides("subscription key", hexes, 32, "Ocp-Apim-Subscription-Key: %s"), besides("rapidapi", alnum, 50,
		"x-rapidapi-key: %s"),
	besides("pagerduty", alnum, 20, "integration_key: %s"), besides("wireguard", base, 43,
		"[Interface]\nPrivateKey = %s=\nAddress = 10.0.0.1"),
	besides("wpa", alnum, 20, `psk="%s"`), besides("ethereum", hexes, 64, "PRIVATE_KEY=0x%s", `"privateKey": "0x%s"`),
	{"heroku by name", func(g *maker) string { return g.uuid() }, []string{"HEROKU_API_KEY=%s"}},
	besides("otp", base32, 32, "otpauth://totp/x:y?secret=%s&issuer=x"),
	chosen("postgres url", "postgres://app:%s@db.internal:5432/app", "DATABASE_URL=postgresql://app:%s@db/x"),
	chosen("redis url", "redis://:%s@cache:6379/0", "rediss://default:%s@cache:6380"), chosen("mongodb url",
		"mongodb+srv://root:%s@c0.x.net/db"),
	chosen("amqp url", "amqp://svc:%s@mq:5672/v"), chosen("https url", "git clone https://bob:%s@git.x.dev/a/b.git"),
	besides("token in url", alnum, 40, "https://%s@git.x.dev/a/b", "https://oauth2:%s@git.x.dev/a/b"),
	besides("bearer", alnum, 40, "Authorization: Bearer %s", `-H "authorization: bearer %s"`,
		`{"Authorization": "Bearer %s"}`),
	besides("authorization token", hexes, 40, "Authorization: Token %s", "Authorization: ApiKey %s",
		"Authorization: %s"),
	{"basic", func(g *maker) string { return b64("admin:" + g.of(alnum, 14)) }, []string{"Authorization: Basic %s",
		"curl -H 'Authorization: Basic %s'", "auth = Basic %s"}},
	{"docker config", func(g *maker) string { return b64("user:" + g.of(alnum, 20)) }, []string{
		`{"auths":{"https://r.x.dev/v1/":{"auth":"%s"}}}`,
		"{\n\t\"auths\": {\n\t\t\"r\": {\n\t\t\t\"auth\": \"%s\"\n\t\t}\n\t}\n}"}},
	{"npm auth", func(g *maker) string { return b64("user:" + g.of(alnum, 20)) }, []string{"//r.x.dev/:_auth=%s",
		"_auth = %s"}},
	besides("session cookie", alnum, 48, "Set-Cookie: session=%s; HttpOnly", "Cookie: theme=dark; connect.sid=%s; a=b"),
	chosen("netrc", "machine api.x.dev login me@x.dev password %s", "machine a.b\n  login me\n  password %s\n"),
	chosen("pgpass", "db.internal:5432:app:app:%s", "*:*:*:app:%s"), chosen("curl -u", "curl -u admin:%s https://x",
		"$ curl -s --user 'admin:%s' https://x.dev/y"),
	chosen("wget", "wget --user=a --password=%s https://x"), chosen("mysql -p", "mysql -u root -p%s db",
		"mysqldump -h db -uroot -p'%s' app"),
	chosen("sshpass", "sshpass -p %s ssh root@h", "sshpass -p '%s' scp a b"), chosen("docker login",
		"docker login -u u -p %s r.x.dev"),
	chosen("password on stdin (before what tells)", "echo %s | docker login -u u --password-stdin r",
		`echo "%s" | sudo -S apt update`, "echo 'root:%s' | chpasswd"),
	chosen("redis-cli", "redis-cli -h c -a %s ping"), chosen("mongosh", "mongosh --host db -u root -p %s"),
	chosen("ldapsearch", "ldapsearch -x -D cn=a -w %s -b dc=x"),
	chosen("sqlcmd", "sqlcmd -S db -U sa -P %s -Q x", "/opt/bin/sqlcmd -S db -U sa -P '%s'"), chosen("zip",
		"zip -P %s a.zip b"), chosen("7z", "7z x a.7z -p%s"),
	chosen("smbclient", "smbclient //h/s -U user%%%s"), chosen("htpasswd", "htpasswd -bc f user %s"),
	chosen("sqlplus", "sqlplus scott/%s@db"),
	chosen("flag", "tool --password %s --x", "tool --db-password=%s", "tool -password '%s'"),
	chosen("environment of a command", "PGPASSWORD=%s psql -h db", "docker run -e MYSQL_ROOT_PASSWORD=%s mysql"),
	chosen("etcdctl", "etcdctl --user root:%s get x"), chosen("cqlsh", "cqlsh -u cassandra -p %s", "beeline -n me -p '%s' -u x"),
	chosen("secure string", `ConvertTo-SecureString "%s" -AsPlainText -Force`, "ConvertTo-SecureString -String '%s' -AsPlainText"),
	chosen("net user (before what tells)", "net user bob %s /add"), chosen("xfreerdp", "xfreerdp /u:me /p:%s /v:host", "xfreerdp /u:me /p:'%s' /v:host"),
	chosen("mc alias", "mc alias set s3 https://x.dev admin %s"), chosen("nmcli", "nmcli dev wifi connect home password %s",
		"nmcli dev wifi connect 'my home' password '%s'"),
	{"ngrok", func(g *maker) string { return "2" + g.of(alnum, 26) + "_" + g.of(alnum, 21) }, []string{
		"ngrok config add-authtoken %s", "ngrok authtoken %s", "ngrok http 80 --authtoken=%s"}},
	{"bitlocker", func(g *maker) string { return strings.TrimSuffix(strings.Repeat(g.of(digits, 6)+"-", 8), "-") }, []string{
		"BitLocker Recovery Key: %s", "recovery password %s"}},
	{"openvpn", func(g *maker) string { return strings.TrimSpace(strings.Repeat(g.of(hexes, 32)+"\n", 16)) }, []string{
		"<tls-auth>\n-----BEGIN OpenVPN Static key V1-----\n%s\n-----END OpenVPN Static key V1-----\n</tls-auth>"}},
	besides("key of a url", alnum, 24,
		"https://maps.googleapis.com/maps/api/geocode/json?address=a&key=%s", "https://x.dev/v3/items?key=%s&page=2",
		"curl 'https://x.dev/v1/models/m1:generateContent?key=%s' -d @a.json", "GET /v1/complete?input=a%%20b&key=%s HTTP/1.1",
		`<script src="https://maps.googleapis.com/maps/api/js?v=3&amp;key=%s"></script>`),
	{"app password (before what tells)", func(g *maker) string {
		return strings.Join([]string{g.of(lower, 4), g.of(lower, 4), g.of(lower, 4), g.of(lower, 4)}, " ")
	}, []string{"app password: %s", "Gmail app password is %s",
		"GMAIL_APP_PASSWORD=\"%s\"", "smtp_pass = '%s'", "my password: \"%s\", keep it",
		"appPassword: `%s`,"}},
	chosen("openssl", "openssl rsa -in k -passin pass:%s"), chosen("keytool",
		"keytool -list -storepass %s -keystore x"),
	chosen("literal of a secret", "kubectl create secret generic x --from-literal=pw=%s"), chosen("vault kv",
		"vault kv put secret/x password=%s"),
	chosen("sql user", "CREATE USER app WITH PASSWORD '%s';", "CREATE USER 'a'@'%%' IDENTIFIED BY '%s';",
		"ALTER ROLE app PASSWORD '%s'"),
	{"kubernetes yaml", func(g *maker) string { return b64(g.of(alnum, 12)) }, []string{
		"apiVersion: v1\nkind: Secret\ndata:\n  tls.x: %s\n"}},
	{"kubernetes data (before what tells)", func(g *maker) string { return b64(g.of(alnum, 12)) }, []string{
		"apiVersion: v1\ndata:\n  pw: %s\n  user: YWRtaW4=\nkind: Secret\n", `{"data":{"x":"%s"},"kind":"Secret"}`}},
	{"kubernetes json", func(g *maker) string { return b64(g.of(alnum, 12)) }, []string{
		`{"kind":"Secret","data":{"x":"%s"}}`, "{\n  \"kind\": \"Secret\",\n  \"data\": {\n    \"x\": \"%s\"\n  }\n}"}},
	chosen("kubernetes stringData", "kind: Secret\nstringData:\n  x: %s\n  y: \"z\"\n"),
	{"wallet (before what tells)", func(*maker) string {
		return strings.TrimSpace(strings.Repeat("river stone ",
			6))
	}, []string{`MNEMONIC="%s"`, "mnemonic: %s"}},
	{"spool token", func(g *maker) string { return g.of(hexes, 64) }, []string{"ops      admin        %s",
		"ci       read,write   %s  session=ci-", "ops admin %s", "mira read,answer  %s"}},
}

func init() {
	seen := map[string]bool{}
	for i, k := range kinds {
		if seen[k.name] {
			panic(fmt.Sprintf("kind %q is there twice", k.name))
		}
		seen[k.name] = true
		if k.places == nil {
			kinds[i].places = everywhere
		}
	}
}
