"use client";

import { useEffect } from "react";

/** A page whose store is the browser's own. */
export default function Page() {
  useEffect(() => {
    void import("./main.js");
  }, []);
  return <p>See the title.</p>;
}
