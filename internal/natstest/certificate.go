package natstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"spool/internal/must"
)

// Certificate writes a certificate for 127.0.0.1, which signs itself, and its key: dir/server.pem and dir/server-key.pem.
func Certificate(t testing.TB, dir string, serial int64) (cert, key string) {
	t.Helper()
	secret := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "spool test"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	public := must.Get(x509.CreateCertificate(rand.Reader, form, form, &secret.PublicKey, secret))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(secret))(t)
	cert, key = filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		must.Do(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}
