package mcp

import (
	"context"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"spool/internal/access"
)

// Handler serves peers over HTTP. It keeps no session: each request stands alone. Whoever leads a request here has let it
// in, has bounded its body, and says in its context what it may see (access.With) and how long it may take. Only one that
// may answer is given the tool that answers.
func Handler(cfg Config) http.Handler {
	server := func(answerer string) *sdk.Server {
		of := cfg
		of.Answerer = answerer
		s := New(of)
		s.AddReceivingMiddleware(endWithRequest)
		return s
	}
	readers, answerers := server(""), server(cfg.Answerer)
	h := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		if access.From(r.Context()).Scopes&access.Answer != 0 {
			return answerers
		}
		return readers
	}, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Context())))
	})
}

// requestKey is that of the context of the request that a call came with.
type requestKey struct{}

// endWithRequest ends a call when its request ends. The SDK does so in some versions of the protocol alone.
func endWithRequest(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, call sdk.Request) (sdk.Result, error) {
		if request, ok := ctx.Value(requestKey{}).(context.Context); ok {
			within, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(request, func() { cancel(context.Cause(request)) })()
			ctx = within
		}
		return next(ctx, method, call)
	}
}
