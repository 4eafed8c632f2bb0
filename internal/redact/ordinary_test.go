package redact_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// ordinary are texts without a secret, one a line; what looks like one is code, a name, a type, a placeholder or an id.
const ordinary = `
ConvertTo-SecureString $env:DB_PASSWORD -AsPlainText -Force
$secure = Read-Host -AsSecureString | ConvertFrom-SecureString
net user bob * /add
net user administrator /active:yes
mc alias set s3 https://x.dev "$KEY" "$SECRET"
nmcli dev wifi connect home password "$WIFI_PASSWORD"
nmcli connection show --active
xfreerdp /u:me /v:host /size:1920x1080
ngrok http 8080 --log=stdout
etcdctl --user root get /config/app1
cqlsh -u cassandra --ssl db01 9042
orders 100001-100002-100003
for(;i<n;token=e1.next2())
function f(a){if(a)return 1;password=getPw1(a);token=n2.value}
https://x.dev/list?page=2&token_type=bearer&sort=asc
https://x.dev/reset?user=a&password=$NEW_PASSWORD
Server=db;Database=app1;Integrated Security=true;Password={your_password1}
the password field must be at least 12 characters
secretKeyRef: {name: db-credentials, key: password}
aws secretsmanager get-secret-value --secret-id prod/db/Password1
PASSWORD_MIN_LENGTH=12 PASSWORD_REGEX=^(?=.*[A-Z])(?=.*[0-9]).{12,}$
secret sharing with threshold=3 shares=5
const password = process.env.DB_PASSWORD;
password = os.environ["DB_PASSWORD"]
password := os.Getenv("DB_PASSWORD")
String password = System.getenv("DB_PASSWORD");
let password = env::var("DB_PASSWORD")?;
$password = getenv('DB_PASSWORD');
password = ENV.fetch("DB_PASSWORD")
val password = config.getString("db.password")
var password = Environment.GetEnvironmentVariable("DB_PASSWORD");
char *password = getenv("DB_PASSWORD");
token := nextToken(scanner)
token = tokens[i].value
if token.type == TokenType.IDENT2 {
func parseToken(token string, secret []byte) (*Claims2, error) {
type Token struct { Kind TokenKind; Text string }
secret, err := client.GetSecret(ctx, secretName)
apiKey: process.env.API_KEY ?? "",
api_key = "YOUR_API_KEY"
api_key = "your-api-key-here-1234"
api_key: <API_KEY>
API_KEY=xxxxxxxxxxxxxxxxxxxxxxxx
api_key=${API_KEY}
api_key: "{{ .Values.apiKey1 }}"
password: ${DB_PASSWORD}
password: $DB_PASSWORD1
password: "${{ secrets.DB_PASSWORD1 }}"
password: {{ db_password1 }}
password: !vault |
password: !Ref DbPassword1
password: changeme
password: changeme123
password: password123
password: secret
password: string
password: required|min:8|max:64
password: null
password: ""
password: "********"
password: '<your password1>'
PASSWORD=password1
POSTGRES_PASSWORD=postgres
MYSQL_ROOT_PASSWORD=root123
DB_PASSWORD=example1234
DB_PASSWORD=test1234
export TOKEN=$(cat /run/secrets/token1)
export VAULT_TOKEN=$(vault print token)
TOKEN="$GITHUB_TOKEN"
token: ${{ secrets.GITHUB_TOKEN }}
token: ${{ github.token }}
GITHUB_TOKEN: ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
OPENAI_API_KEY=sk-your-api-key-goes-here-1234567890
ANTHROPIC_API_KEY=sk-ant-your-key-here
AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE
AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
aws_secret_access_key = <your secret key 1>
client_secret=YOUR_CLIENT_SECRET_1
"clientSecret": "<client-secret-1>"
Authorization: Bearer <token>
Authorization: Bearer $TOKEN1
Authorization: Bearer ${ACCESS_TOKEN_1}
headers: { Authorization: ` + "`Bearer ${token1}`" + ` }
req.Header.Set("Authorization", "Bearer "+token1)
headers = {"Authorization": f"Bearer {access_token1}"}
curl -H "Authorization: Bearer $(gcloud auth print-access-token)" https://x.dev
curl -u "$USER:$PASS1" https://x.dev
curl -u user:password https://x.dev
curl -s -o /dev/null -w "%{http_code}" http://localhost:8080/healthz
curl -X POST https://x.dev/api/v1/login -d @body.json
mysql -u root -p db
mysql -uroot -p"$MYSQL_PWD" app
mysql -u root -ppassword
docker login -u AWS --password-stdin 1234.dkr.ecr.eu-west-1.amazonaws.com
docker run -p 8080:8080 -p 127.0.0.1:5432:5432 postgres:16
docker login registry.x.dev -p 5000
redis-cli -h cache -p 6379 ping
mongosh --port 27017 --host db
psql postgres://localhost:5432/app
psql postgres://app:password@localhost:5432/app
postgres://postgres:postgres@db:5432/app
DATABASE_URL=postgres://user:${PASSWORD}@host/db
DATABASE_URL=postgresql://user:secret@localhost/db
redis://localhost:6379/0
redis://:${REDIS_PASSWORD}@cache:6379
amqp://guest:guest@localhost:5672/
mongodb://mongo:27017,mongo2:27017/app?replicaSet=rs0
https://user:pass@example.com/
git@github.com:acme/widget2.git
git remote add origin https://github.com/acme/widget2.git
ssh://git@git.x.dev:2222/acme/widget.git
https://x.dev/a/b?token=abc&page=2
https://x.dev/reset?token={token1}
https://x.dev/path/:id/token/:token1
https://storage.googleapis.com/b/o?generation=1690000000000000
https://x.dev/list?sort=asc&key=created_at_and_updated_at_2
https://x.dev/i18n?key=settings.profile.notifications.v2.title
https://x.dev/cache?key=node-modules-linux-x64-v3-20261120
https://x.dev/api?key=YOUR_API_KEY_GOES_HERE_123
https://x.dev/api?key={your_api_key_of_20_chars1}
https://x.dev/api?key=${GOOGLE_MAPS_API_KEY_2}
https://x.dev/object?key=uploads/2026/11/30/report-final-v2.pdf
https://x.dev/o?key=3f786850e387550fdab836ed7e6dc881de23001b
https://x.dev/o?key=1b4e28ba-2fa1-41d2-883f-0016d3cca427
kubectl get cm -o jsonpath='{.data}'; open 'http://x/?a=1&key=abc'
password: this will only work once, then make your own
the password must have some more text than that
password: have a look at what they said
the app password: abcd efgh ijkl mnop
app password: xxxx xxxx xxxx xxxx
password is the same when both sites took yours from here
passwords: they must have been lost
your password: type only what they gave
http://127.0.0.1:8222/jsz?accounts=true&streams=1
machine learning login flow password reset page
machine-id login shell password expired
the login page asks for a password again after 30 minutes
password must have at least 12 characters
Enter password for user app1:
error: password authentication failed for user "app2"
FATAL: no pg_hba.conf entry for host "10.0.0.7", user "app", database "app1"
token expired at 2026-11-22T08:54:50Z
invalid token: unexpected '}' at line 12 column 34
SyntaxError: Unexpected token < in JSON at position 1024
error TS1005: ';' expected. token: CloseBraceToken2
unexpected token IDENT2 near line 44
max_tokens: 4096
max_token=200000
"input_tokens":1234,"output_tokens":5678,"cache_read_input_tokens":90123
next_page_token: CAoQAA2kZXJ3b3JrZXItMTIz
"nextToken": "eyJ2IjoxLCJrIjoiYWJjMTIzIn0",
continuation_token=1a2b3c4d5e6f7081
"pageToken": "CjQKEgoQMDAwMDAwMDAwMDAwMDAwMQ",
csrf_token = generate_csrf(secret_key1)
<input type="password" name="password" id="password1" autocomplete="new-password">
<input name="token" type="hidden" value="{{ csrf_token }}">
<label for="password2">Password</label>
public_key = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE"
primary_key: id
primaryKey: 'user_id2'
PRIMARY KEY (tenant_id, event_id2)
partition_key = "tenant_id#2026"
cache_key = f"user:{user_id}:v2"
sort_key: created_at_2026
api_key_id = 'primary-key-rotation-2026'
secretName: app-tls-2
secret_name = "prod/db/credentials-2"
secretKeyRef: {name: db-creds-2, key: password}
valueFrom: {secretKeyRef: {name: app2, key: token}}
password_file: /run/secrets/db_password_1
POSTGRES_PASSWORD_FILE=/run/secrets/pg1
--password-file /etc/app/pw1.txt
password-hash: bcrypt, cost 12
passwordPolicy: { minLength: 12, requireDigits: 2 }
password_reset_token_expires_in_minutes = 30
access_token_url = https://x.dev/oauth2/access_token
token_endpoint = "https://x.dev/oauth2/v1/token"
"token_type": "bearer", "expires_in": 3600
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
pad_token="[PAD]", eos_token="</s1>", unk_token="<unk2>"
tokens = re.findall(r"\w+|[^\w\s]", text2)
SECRET_KEY = get_random_secret_key()
SECRET_KEY = env("DJANGO_SECRET_KEY_2")
secret = Secret.from_k8s("app2", namespace="prod1")
const secret = crypto.randomBytes(32).toString("hex");
const token = jwt.sign({ sub: user2.id }, secret1, { expiresIn: "1h" });
var token = CancellationToken.None2;
CancellationToken cancellationToken = default;
let passwd = rpassword::prompt_password("Password1: ")?;
private final String apiKey1;
this.apiKey = apiKey2;
self.password = password1
self.token = token2.strip()
creds.password = form.password2.data
user.password = hash_password(password2)
setPassword(event.target.value2);
password={password2} onChange={setPassword2}
<Password value={password2} />
:password => params[:password2],
auth_token: current_user.auth_token2,
password: { type: String2, required: true, minlength: 8 },
password: z.string().min(8).max(64),
password: Optional[str] = None2
password = models.CharField(max_length=128)
password VARCHAR(255) NOT NULL,
UPDATE users SET password = crypt($1, gen_salt('bf')) WHERE id = $2;
CREATE USER app WITH PASSWORD '${PASSWORD}';
ALTER TABLE users ADD COLUMN password_digest varchar(60);
GRANT SELECT ON credentials2 TO reader1;
- name: DB_PASSWORD
value: {{ .Values.db.password2 | quote }}
--from-literal=password=$PASSWORD
kubectl get secret app-tls-2 -o yaml
kubectl create secret generic app2 --from-file=config2.json
kind: SecretProviderClass
kind: SecretStore
keyword=authentication_middleware_handler_2
monkey=capuchin2 donkey: burro3 turkey = bird4
The token budget is 200000 tokens; key takeaways follow
compass=N45W bypass: true overpass = bridge12
PWD=/home/agent1/work OLDPWD=/home/agent1
cd $PWD && ls -la
drwxr-xr-x  2 root root 4096 Nov 22 14:02 secrets2
-rw-------  1 agent agent 1679 Nov 22 14:02 id_rsa
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7Zx2mQ3k9 agent@host
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG7k2x9mQ3Zr4Tn6Vy1Kp8Md3Hs5Jf0GcAeUiO agent@host
SHA256:k2x9mQ3Zr4Tn6Vy1Kp8Md3Hs5Jf0GcAeUiOb7Xw2Lq9 agent@host (ED25519)
age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq
gpg --list-keys: pub rsa4096 2026-01-01 [SC] 4AEE18F83AFDEB234AEE18F83AFDEB234AEE18F8
signingkey = 4AEE18F83AFDEB23
Cookie: theme=dark; lang=en
Set-Cookie: theme=dark; Path=/; Max-Age=31536000; SameSite=Lax
cookies.set("session", sessionId2, { httpOnly: true });
document.cookie = "consent=1; path=/";
arn:aws:secretsmanager:eu-west-1:123456789012:secret:app/db-AbC123
arn:aws:iam::123456789012:role/deploy-2
projects/acme-prod-2/secrets/db-password/versions/3
/subscriptions/0b1f6471-1bf0-4dda-aec3-cb9272f09590/resourceGroups/rg2
i-0a1b2c3d4e5f60718 vpc-0f1e2d3c4b5a69788 subnet-0123456789abcdef0
sg-0a1b2c3d4e5f60718 ami-0abcdef1234567890 eni-00aa11bb22cc33dd4
toolu_01AbCdEfGhIjKlMnOpQrStUv msg_01XFDUDYJgAACzvnptvVoYEL req_011CSHoEeqs5C35K2UUqR7Fy
call_k2x9mQ3Zr4Tn6Vy1Kp8Md3Hs chatcmpl-9aB8cD7eF6gH5iJ4kL3mN2oP1qR0
cus_N4k9x2mQ3Zr4Tn pi_3OaBcDeFgHiJkLmN1oPqRsTu price_1NabcDEFghiJKLmnoPQRstuV
pk_test_TYooMQauvdEDq54NiTphI7jx is a key that everybody may see
pk.eyJ1IjoiYWNtZSIsImEiOiJja2FiYyJ9.k2x9mQ3Zr4Tn6Vy1Kp8Md3 is a public token of maps
phc_k2x9mQ3Zr4Tn6Vy1Kp8Md3Hs5Jf0GcAeUiOb7Xw2Lq9 is a project's public key
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk
integrity sha512-z6Y6Y5p4YJ8u6a1Y1q9U2dCkq4c1Jj0L9w2b0mV4Q1mY8o4e2F1x2a6P9d4k8n7s6f5g4h3j2k1l0q9w8e7r6t==
etag: W/"5e8c7-k2x9mQ3Zr4Tn6Vy1Kp8Md3Hs5Jf"
x-request-id: 8f14e45f-ceea-467f-a0e6-1b0c3f5d2a11
traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
the block begins with -----BEGIN RSA PRIVATE KEY----- and ends with -----END RSA PRIVATE KEY-----
if strings.HasPrefix(line, "-----BEGIN PRIVATE KEY-----") { return errKey2 }
const re = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
ok  	acme/internal/auth	0.123s	coverage: 81.2% of statements
--- FAIL: TestPassword/empty (0.00s)
    auth_test.go:42: Password("hunter2") = true2, want false
panic: runtime error: index out of range [5] with length 3
goroutine 17 [running]: main.(*Token).next(0xc0000b4000, 0x1f, 0x20)
at com.acme.auth.TokenService.verify(TokenService.java:128)
  File "/srv/app/auth.py", line 88, in get_token2
    at Object.<anonymous> (/srv/app/auth/password.test.js:12:7)
thread 'main' panicked at src/token.rs:77:13: called Option::unwrap()
docker pull ghcr.io/acme/app@sha256:9e42c83c1bf81fe768560c6adb1197aed7777c7cbc53c6decfefe95106871022
FROM golang:1.26@sha256:4bf92f3577b34da6a3ce929d0e0e47364bf92f3577b34da6a3ce929d0e0e4736
github.com/acme/widget v1.2.3 h1:k2x9mQ3Zr4Tn6Vy1Kp8Md3Hs5Jf0GcAeUiOb7Xw2Lq=
"resolved": "https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz",
checksum = "k2x9mq3zr4tn6vy1kp8md3hs5jf0gcaeuiob7xw2lq9zr4tn6vy1kp8md3hs5jf0"
commit 5c1405677fbccdc53b6b366f9a1b88c9aa001122
index 5c14056..9e42c83 100644
Merge pull request #1234 from acme/fix-token-refresh-2
feat(auth): rotate api_key every 90d, see docs/keys.md
| password | string | yes | at least 8 characters |
| token | read2,write2 | who may read and write |
## Rotate the secret: 1. make a new one 2. deploy it
id,name,token_count,created
42,alice,1234,2026-11-22
!function(e,t){"use strict";var n=e.token,r=t.secret1;n&&r(n)}(window,{});
a.password=b.password1,c.token=d.token2||e.secret3;
{"type":"string","format":"password","minLength":8}
{"key":"a1b2c3","name":"Foo2","tokens":[1,2,3]}
{"token":"identifier","text":"foo42","line":12}
{"password":"[REDACTED1]","token":"***"}
{"apiKey":"${API_KEY_1}","secret":"%SECRET1%"}
enc_password: ENC[AES256_GCM,data:k2x9mQ3Zr4Tn6Vy1,iv:a1b2,tag:c3d4,type:str]
op://vault2/item1/password
vault:secret/data/app2#password
passwordRef: secretsmanager:prod/db2
hashed = hashlib.sha256(password2.encode()).hexdigest()
assert check_password("hunter2", hashed2) is True
expect(login("alice", "password1")).toBe(true);
User.create!(email: "a@example.com", password: "password1")
fixture: {user: example, password: example-password-1}
test_secret = "not-a-real-secret-1234"
fake_token = "fake-token-for-tests-1"
dummy_api_key = "dummy-api-key-000000000001"
basic auth with user and password
Basic configuration of the proxy2
sk-learn, sk-image and sk-video are packages
task-force risk-1 disk-usage desk-phone-12345678
aws s3 cp s3://bucket2/key1 . --profile prod2
echo "done" | tee /tmp/log1
echo password1 | wc -c
echo "$TOKEN1" | docker login -u x --password-stdin
openssl req -x509 -newkey rsa:2048 -passout pass:$PASS1 -out c.pem
read write admin are the scopes; a token has one of them
MNEMONIC=$(cat seed1.txt)
otpauth://totp/Example:alice?issuer=Example
v1.0-alpha2 v1.0-rc1 t1.micro t2.small y2_axis re_compile fc-cache pat-terns
`

// generated are ordinary texts with drawn parts: hashes, ids, lockfiles, images, logs.
func generated(g *maker) []string {
	sum, id := func() string { return g.of(hexes, 64) }, func() string { return g.uuid() }
	texts := []string{
		"data:image/png;base64," + g.of(base, 4000),
		`{"data":"` + g.of(base, 300) + "+1/" + "/0" + g.of(alnum, 70) + "+" + g.of(base, 300) + `"}`,
		"data:image/png;base64," + g.of(base, 300) + "/1/" + "/0" + g.of(alnum, 70) + "/" + g.of(base, 300),
		`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + g.of(base, 9000) + `"}}`,
		`{"signature":"` + g.of(base, 700) + `"}`, `{"encrypted_content":"` + g.of(words, 900) + `"}`,
		"-----BEGIN CERTIFICATE-----\n" + g.lines(12, 64) + "-----END CERTIFICATE-----",
		"-----BEGIN PGP SIGNATURE-----\n\n" + g.lines(6, 64) + "-----END PGP SIGNATURE-----",
		"certificate-authority-data: " + b64("-----BEGIN CERTIFICATE-----\n"+g.lines(4,
			64)+"-----END CERTIFICATE-----\n"),
		"kind: ConfigMap\ndata:\n  app.conf: " + b64(g.of(alnum, 30)) + "\n",
		"apiVersion: v1\nkind: SecretList\nitems: []\n",
	}
	for range 6 {
		texts = append(texts,
			"git: "+g.of(hexes, 40)+" "+g.of(hexes, 7), "sha256:"+sum(), sum()+"  dist/app.tar.gz", "id "+id(),
			"trace="+g.of(hexes, 32)+" span="+g.of(hexes, 16),
			`"integrity": "sha512-`+g.of(base, 86)+`=="`, "github.com/a/b v1.0.0 h1:"+g.of(base, 43)+"=",
			`checksum = "`+sum()+`"`, "sha256-"+g.of(base, 43)+"=",
			"pack "+strings.ToLower(g.of(base32, 26))+".pack", "ulid 01"+g.of("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 24),
			"etag: \""+g.of(hexes, 32)+"\"",
			`{"toolUseId":"toolu_01`+g.of(alnum, 22)+`","id":"msg_01`+g.of(alnum, 22)+`"}`,
			"image@sha256:"+sum()+" pulled", "arn:aws:ecs:eu-west-1:123456789012:task/c/"+g.of(hexes, 32),
			"--hash=sha256:"+sum(), "nodes: n-"+g.of(hexes, 12)+" pod app-"+g.of(hexes, 9)+"-"+g.of(lower+digits, 5),
			"session "+id()+" thread main seq "+g.of(digits, 9),
			"x-amzn-RequestId: "+id(), "chunk-"+g.of(alnum, 8)+".js  12.3 kB", fmt.Sprintf("0x%s: mov rax, 0x%s",
				g.of(hexes, 12), g.of(hexes, 8)),
			"addr 0x"+g.of(hexes, 40)+" tx 0x"+sum(), "POST /v1/objects/"+g.of(alnum, 28)+" 201 12ms",
			`{"cursor":"`+g.of(alnum, 40)+`","etag":"`+g.of(hexes, 32)+`"}`,
			"PASS_THROUGH_"+g.of(upper, 4)+"=1", "next_token="+g.of(alnum, 40),
			"https://cdn.x.dev/assets/index-"+g.of(alnum, 8)+".css?v="+g.of(hexes, 20))
	}
	return texts
}

// TestOrdinary: nothing in ordinary texts is taken for a secret, in any form; and its figure.
func TestOrdinary(t *testing.T) {
	const want = 300
	texts := append(strings.Split(strings.TrimSpace(ordinary), "\n"), generated(&maker{rand.New(rand.NewPCG(3, 9))})...)
	texts = append(texts, ordinary)
	r, wrong := mask(), 0
	for _, text := range texts {
		found := false
		for name, f := range forms(text, "") {
			if strings.HasPrefix(name, "json with escapes") {
				continue
			}
			got, n := r.Clean([]byte(f.text), f.json)
			if n > 0 {
				t.Errorf("%s: %d found in %.200q: %.300q", name, n, text, got)
				found = true
			}
			if f.json && !json.Valid(got) {
				t.Errorf("%s: no JSON any more: %.300q", name, got)
			}
		}
		if got := pieces(text, 11); got != text {
			t.Errorf("in pieces: %.300q of %.300q", got, text)
			found = true
		}
		if found {
			wrong++
		}
	}
	t.Logf("false positives: in %d of %d ordinary texts", wrong, len(texts))
	if wrong > 0 || len(texts) < want {
		t.Errorf("false positives in %d of %d texts, want none in %d at least", wrong, len(texts), want)
	}
}
