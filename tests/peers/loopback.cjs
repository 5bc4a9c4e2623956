// Loaded before a server that would bind every interface: it binds 127.0.0.1 instead, at a port chosen by the system,
// and the port is written to the file that PEER_READY names. Nothing of the server's own files is changed.
"use strict";

const fs = require("node:fs");
const net = require("node:net");

const ready = process.env.PEER_READY;
const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (port, ...more) {
  if (typeof port !== "number") throw new Error(`a server that listens at ${JSON.stringify(port)}, not at a port`);
  this.once("listening", () => {
    fs.writeFileSync(`${ready}.part`, String(this.address().port));
    fs.renameSync(`${ready}.part`, ready);
  });
  return listen.call(this, 0, "127.0.0.1", ...more.filter((one) => typeof one === "function"));
};
