# All four commands as static binaries, without a shell, as a user without rights. One target a command:
#   docker build --target persister -t spool-persister .
# The last target is the tool itself:
#   docker build -t spool . && docker run --rm spool version

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags="-s -w" -o /out/bin/ ./cmd/ingest ./cmd/persister ./cmd/gc ./cmd/spool \
    && mkdir -p /out/data /out/tmp

FROM scratch AS base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/bin/ /bin/
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532

FROM base AS persister
ENTRYPOINT ["/bin/persister"]

FROM base AS gc
ENTRYPOINT ["/bin/gc"]

# For its health check, ingest has a program that asks over HTTP.
FROM base AS ingest
COPY --from=busybox:1.37-uclibc /bin/wget /bin/wget
EXPOSE 7717
ENTRYPOINT ["/bin/ingest"]

# What "spool up" and "spool bench" store goes to /data and /tmp.
FROM base AS spool
COPY --from=build --chown=65532:65532 /out/data /data
ENV XDG_DATA_HOME=/data
VOLUME /data
ENTRYPOINT ["/bin/spool"]
