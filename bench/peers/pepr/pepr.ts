// The policies as a Pepr module. It waits with its server, because Pepr's own start takes port 3000.
import { PeprModule } from "pepr";
import cfg from "./package.json";
import { Restricted } from "./restricted";

new PeprModule(cfg as never, [Restricted], { deferStart: true }).start(Number(process.env.PORT));
