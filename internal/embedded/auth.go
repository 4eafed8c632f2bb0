package embedded

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"

	"spool/internal/reload"
)

// authenticate takes the accounts and users from a configuration file.
func (cfg Config) authenticate(opts *server.Options) error {
	from, err := server.ProcessConfigFile(cfg.Auth)
	if err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	if len(from.Users)+len(from.Nkeys) == 0 {
		return fmt.Errorf("accounts: %s names no users: everybody would be let in; make some with spool auth", cfg.Auth)
	}
	opts.Accounts, opts.Users, opts.Nkeys, opts.SystemAccount = from.Accounts, from.Users, from.Nkeys, from.SystemAccount
	return nil
}

const tlsTimeout = 5 // seconds

// apply gives the server the certificate, which is opened the first time, and returns it.
func (t TLS) apply(opts *server.Options, cert *reload.Certificate) (_ *reload.Certificate, err error) {
	if cert == nil {
		if cert, err = reload.OpenCertificate(t.Cert, t.Key); err != nil {
			return nil, err
		}
	}
	if cert == nil {
		return nil, fmt.Errorf("TLS: a CA of clients needs a certificate of the server and its key: give both files")
	}
	cfg, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: t.Cert, KeyFile: t.Key, CaFile: t.CA, Verify: t.CA != ""})
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	cert.Serve(cfg)
	opts.TLS, opts.TLSConfig, opts.TLSVerify, opts.TLSTimeout = true, cfg, t.CA != "", tlsTimeout
	return cert, nil
}
