# The static binary of spool in an image without a shell, as a user without rights. Its first word says what it is: a tool, or a daemon.
#   docker build -t spool . && docker run --rm spool version
#   docker run --rm spool persister --help
# What it says comes from --build-arg VERSION=v1.2.0 --build-arg COMMIT=$(git rev-parse HEAD); the repository is not in the build.
# A second build compiles what changed: Go's caches are kept beside the images. That needs BuildKit, which Docker Engine 23 and later has.

FROM golang:1.26.8 AS build
ENV GOMODCACHE=/cache/modules GOCACHE=/cache/build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/cache go mod download
COPY . .
ARG VERSION COMMIT
RUN --mount=type=cache,target=/cache \
    CGO_ENABLED=0 go build -buildvcs=false -trimpath \
    -ldflags="-s -w -X spool/internal/service.version=$VERSION -X spool/internal/service.commit=$COMMIT" -o /out/bin/ ./cmd/spool \
    && mkdir -p /out/data /out/tmp

# Beside the binary: the authorities that it trusts, a place for temporary files, one for what "spool up" and "spool bench" store, and a
# program that asks over HTTP, for health checks. Daemons store nothing, so /data is no volume until somebody names one.
FROM scratch
ARG VERSION COMMIT
LABEL org.opencontainers.image.title=spool org.opencontainers.image.version=$VERSION org.opencontainers.image.revision=$COMMIT
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=busybox:1.37.0-uclibc /bin/wget /bin/wget
COPY --from=build --chown=65532:65532 /out/tmp /tmp
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build /out/bin/spool /bin/spool
ENV XDG_DATA_HOME=/data
USER 65532:65532
ENTRYPOINT ["/bin/spool"]
